"""Tables, figures and the report that shows them all."""
