"""Tables of what newer releases of libraries lack and older ones had."""
