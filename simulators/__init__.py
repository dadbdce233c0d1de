"""Ground floor: what an RL post-training job is, and how it behaves. Imports nothing of ours, touches no world."""
