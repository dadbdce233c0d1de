"""The guardrails: what stands between a proposal and the gate. `chain.py` has them in order."""
