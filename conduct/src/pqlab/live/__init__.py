"""The live view: one loopback page that shows the running campaign. A view only; no result comes from it.

Reading order: panels (what is drawn, as data) → snapshot (status file and InfluxDB into one document) →
server (serves page.html and that document on 127.0.0.1). dashboards writes the same panels for Grafana and
InfluxDB 2.
"""
