"""A refund agent that fails for a known reason: one stale entry in its memory, and nothing else.

`agent.py` is a whole program that knows nothing of Tachograph; `system_prompt.txt` lies beside it, to be edited. Copy
both anywhere, or run them here.
"""
