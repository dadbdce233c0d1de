"""The daemon's face: /metrics, health, a JSON API and a page for people. What commands goes to the inbox."""
