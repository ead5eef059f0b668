"""The pure core of time: texts to rules, rules to instants. Import it from `cron.schedule`."""
