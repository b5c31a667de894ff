"""What a script may set on hosts, and how much it may ask of them."""
