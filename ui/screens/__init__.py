"""The seven screens: each turns what is known into rows, and keys into effects. Pure but for their own state."""
