"""A double of a Kubernetes API server: real HTTP, no kubelet, no etcd.

It keeps what clients lean on, as the API conventions say: one growing resourceVersion, generation, 409 on a stale
resourceVersion, merge and JSON patches, the scale subresource, label selectors, watch with 410 for the past, RBAC by
bearer token, Status objects for every error. It knows no server-side apply (415), no admission and no schemas.
"""
