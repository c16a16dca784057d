//go:build !old

package main

import "github.com/IBM/sarama"

// What Sarama does not have before 1.50.2.

var cooperativeSticky = sarama.NewBalanceStrategyCooperativeSticky

func (c *client) addOffsets(offsets map[string][]*sarama.PartitionOffsetMetadata) error {
	member := sarama.NewConsumerGroupMetadata(c.consumerOpened.Group)
	if session := c.currentSession(); session != nil {
		member = sarama.NewConsumerGroupMetadataFromSession(session, c.consumerOpened.Group, nil)
	}
	return c.producer.AddOffsetsToTxnWithGroupMetadata(offsets, member)
}
