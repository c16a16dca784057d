"""Kafka clusters on this machine: namespaces, processes, network, disks and clocks."""
