// Everything here is an extra: without it the same forms and links do the same by loading a page.
"use strict";

const main = document.getElementById("main");

function nearEnd() {
  return window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 160;
}

function toEnd() {
  window.scrollTo(0, document.documentElement.scrollHeight);
}

// --- a channel: what is said appears by itself, and is sent without leaving the page ---

function followChannel(channel, after) {
  const stream = new EventSource(`/channels/${encodeURIComponent(channel)}/live?after=${after}`);
  stream.addEventListener("open", () => document.body.classList.remove("lost"));
  stream.addEventListener("error", () => document.body.classList.add("lost"));
  stream.addEventListener("message", (event) => show(JSON.parse(event.data)));
  stream.addEventListener("writing", (event) => showWriting(JSON.parse(event.data)));
}

function show(post) {
  if (document.getElementById(`m${post.id}`)) return;
  const stays = nearEnd();
  const fresh = document.createElement("template");
  fresh.innerHTML = post.html;
  const thread = post.thread === null ? null : document.querySelector(`[data-thread="${post.thread}"]`);
  (thread || document.getElementById("posts")).append(fresh.content);
  document.getElementById("empty")?.remove();
  if (stays && thread === null) toEnd();
}

function showWriting(places) {
  const shown = new Set(places.map((root) => (root === null ? "flat" : String(root))));
  for (const note of document.querySelectorAll("[data-writing]")) note.hidden = !shown.has(note.dataset.writing);
}

async function say(form) {
  const fields = new FormData(form);
  const text = form.elements.text;
  const refused = form.querySelector("[role=alert]");
  const button = form.querySelector("button");
  if (!text.value.trim()) return;
  button.disabled = true;
  try {
    const response = await fetch("/api/local/messages", {
      method: "POST",
      headers: {"Content-Type": "application/json"},
      body: JSON.stringify({channel: main.dataset.channel, text: fields.get("text"), thread: fields.get("thread")}),
    });
    const answer = await response.json();
    refused.textContent = answer.error || "";
    if (response.ok) text.value = "";
  } catch {
    refused.textContent = "hermes-cron does not answer; is it running?";
  }
  refused.hidden = refused.textContent === "";
  button.disabled = false;
  text.focus();
}

if (main.dataset.channel) {
  followChannel(main.dataset.channel, main.dataset.after);
  if (!location.hash) toEnd();
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".say")) return;
    event.preventDefault();
    say(event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches(".say textarea")) return;
    if (matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });
}

// --- the lists: shown anew when something was stored ---

let isStale = false;

async function showAnew() {
  if (document.hidden || main.contains(document.activeElement) || main.matches(":active")) {
    isStale = true;
    return;
  }
  isStale = false;
  const response = await fetch(location.href);
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("main");
  if (fresh.innerHTML !== main.innerHTML) main.replaceChildren(...fresh.childNodes);
  if (!("live" in fresh.dataset)) stopFollowing();
}

let lists = null;

function stopFollowing() {
  lists?.close();
  lists = null;
}

if ("live" in main.dataset) {
  lists = new EventSource("/live");
  lists.addEventListener("changed", () => void showAnew());
  const again = () => { if (isStale && lists) void showAnew(); };
  document.addEventListener("visibilitychange", again);
  for (const kind of ["focusout", "pointerup"]) document.addEventListener(kind, () => setTimeout(again, 0));
}
