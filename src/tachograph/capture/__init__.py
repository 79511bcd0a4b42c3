"""Watch it happen: what runs inside a recorded program, and what starts one."""
