"""One page with everything that came out, which needs no network and no other file."""
