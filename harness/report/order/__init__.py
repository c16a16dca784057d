"""Order pages: for each suspicious key, offset by offset, who wrote and who polled."""
