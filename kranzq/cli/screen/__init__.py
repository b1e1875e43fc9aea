"""What a terminal is shown: screens, the daemon's status line, progress. Where nobody looks none of it is imported."""
