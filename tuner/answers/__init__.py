"""JSON answers as typed models, one a command. Keys are added to, never renamed; `schema/` holds their JSON Schemas."""
