"""Kafka on this machine: namespaces, processes, network, disks, clocks."""
