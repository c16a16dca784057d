//go:build old

package main

import "github.com/IBM/sarama"

func cooperativeSticky() sarama.BalanceStrategy { panic("this version of Sarama has no cooperative assignor") }

func (c *client) addOffsets(offsets map[string][]*sarama.PartitionOffsetMetadata) error {
	return c.producer.AddOffsetsToTxn(offsets, c.consumerOpened.Group)
}
