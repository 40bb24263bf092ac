"""Pictures and pages made from saved results; nothing is computed here."""
