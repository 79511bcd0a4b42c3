"""The `replay/v1` document of a decision, made from its log: everything of it that was observed."""
