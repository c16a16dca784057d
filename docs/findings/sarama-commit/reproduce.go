// A commit of offsets that the broker rejects, in a consumer group of Sarama with default settings:
// go run reproduce.go HOST:PORT
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type handler struct {
	metadata  string
	committed chan struct{}
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, h.metadata)
		session.Commit()
		close(h.committed)
	}
	return nil
}

func check(err error) {
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
}

// committedOffset consumes the only record of the topic, commits it with the metadata, and returns what the group has.
func committedOffset(client sarama.Client, admin sarama.ClusterAdmin, topic, group, metadata string) int64 {
	consumer, err := sarama.NewConsumerGroupFromClient(group, client)
	check(err)
	h := &handler{metadata, make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- consumer.Consume(ctx, []string{topic}, h) }()
	select {
	case <-h.committed:
	case <-time.After(30 * time.Second):
		check(fmt.Errorf("the record was not read in 30 s"))
	}
	offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	check(err)
	cancel()
	check(<-ended)
	return offsets.GetBlock(topic, 0).Offset
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Producer.Return.Successes = true
	client, err := sarama.NewClient(os.Args[1:2], config)
	check(err)
	admin, err := sarama.NewClusterAdminFromClient(client)
	check(err)
	topic := fmt.Sprintf("sarama-commit-%d", time.Now().UnixMilli())
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	producer, err := sarama.NewSyncProducerFromClient(client)
	check(err)
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("x")})
	check(err)

	accepted := committedOffset(client, admin, topic, topic+"-accepted", "")
	// Brokers accept 4096 bytes of metadata (offset.metadata.max.bytes), and answer OFFSET_METADATA_TOO_LARGE.
	rejected := committedOffset(client, admin, topic, topic+"-rejected", strings.Repeat("x", 5000))
	fmt.Println("expected: Commit() returns an error, or offset 1 is committed")
	fmt.Printf("found:    after a commit that the broker accepts, the committed offset is %d\n", accepted)
	const after = "after a commit that the broker rejects, no error is reported, and the committed offset is"
	fmt.Printf("          %s %d\n", after, rejected)
	if rejected == 1 {
		os.Exit(1)
	}
}
