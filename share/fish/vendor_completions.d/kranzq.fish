# fish reads this at the first TAB behind kranzq; the program itself says the rest.
_KRANZQ_COMPLETE=fish_source kranzq 2>/dev/null | source
