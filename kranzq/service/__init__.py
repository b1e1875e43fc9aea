"""A checkout's daemon as a service of the user's: the unit's text, where it lies, what the service manager says.

`facts` are what a unit must tell, `shell` finds them; `manager` is what a service manager can do, `systemd` and
`launchd` do it; `mark` tells an edited file from one of ours, `installed` looks at the file, writes it and takes it
away. Nothing here decides to start or stop: that is typed by a person, or asked for.
"""
