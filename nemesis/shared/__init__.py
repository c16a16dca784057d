"""What several fault verbs share."""
