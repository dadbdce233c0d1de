"""The daemon's face: /metrics, health, a JSON API and a page for people. It reads; what changes state goes to the inbox."""
