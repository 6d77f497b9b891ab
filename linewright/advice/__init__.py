"""From measurements to a setting of LINEWRIGHT_ATOMICS and to the form to write in code."""
