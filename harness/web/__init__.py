"""Web pages of stored runs, served on the loopback interface or exported as a static site."""
