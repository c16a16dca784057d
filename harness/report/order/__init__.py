"""Order pages: for each key with anomalies, the writers and readers of every offset near them."""
