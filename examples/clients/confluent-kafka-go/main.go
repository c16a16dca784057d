// confluent-kafka-go (librdkafka) as a client program: see docs/use/your-own-client.md.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"example/lines"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

type client struct {
	*lines.Lines
	producer *kafka.Producer
	consumer *kafka.Consumer
	tracker  lines.Tracker
}

func (c *client) open(r *lines.Request) (any, error) {
	config := kafka.ConfigMap{
		"bootstrap.servers": r.Bootstrap,
		"client.id":         r.ClientID,
		"socket.timeout.ms": int(r.RequestTimeoutMS),
	}
	for name, value := range r.Security {
		config[name] = value
	}
	if r.Role == "producer" {
		producing(r, config)
	} else {
		consuming(r, config)
	}
	for name, setting := range r.Properties {
		text := string(setting)
		_ = json.Unmarshal(setting, &text) // numbers and booleans stay as they are written
		config[name] = text
	}
	if r.Role == "producer" {
		producer, err := kafka.NewProducer(&config)
		if err != nil {
			return nil, err
		}
		c.producer = producer
		go c.deliveries(producer)
		return lines.Empty, nil
	}
	consumer, err := kafka.NewConsumer(&config)
	c.consumer = consumer
	return lines.Empty, err
}

func producing(r *lines.Request, config kafka.ConfigMap) {
	config["acks"] = string(r.Acks)
	config["enable.idempotence"] = r.Idempotence
	config["linger.ms"] = 0
	config["request.timeout.ms"] = int(r.RequestTimeoutMS)
	config["delivery.timeout.ms"] = int(r.DeliveryTimeoutMS)
	if r.Retries != nil {
		config["retries"] = *r.Retries
	}
	if r.TransactionalID != nil {
		config["transactional.id"] = *r.TransactionalID
		config["transaction.timeout.ms"] = int(r.TransactionTimeoutMS)
	}
}

func consuming(r *lines.Request, config kafka.ConfigMap) {
	config["group.id"] = r.Group
	config["isolation.level"] = r.IsolationLevel
	config["enable.auto.commit"] = r.AutoCommit
	config["enable.partition.eof"] = true // to know positions beyond the markers of transactions
	config["auto.offset.reset"] = r.AutoOffsetReset
	if r.AutoOffsetReset == "none" {
		config["auto.offset.reset"] = "error"
	}
	if r.GroupProtocol == "consumer" {
		config["group.protocol"] = "consumer"
		if r.Assignor != nil {
			config["group.remote.assignor"] = *r.Assignor
		}
		return
	}
	config["session.timeout.ms"] = int(r.SessionTimeoutMS)
	config["heartbeat.interval.ms"] = int(min(3000, r.SessionTimeoutMS/3))
	if r.Assignor != nil {
		config["partition.assignment.strategy"] = *r.Assignor
	}
}

func (c *client) send(r *lines.Request) (any, error) {
	err := c.producer.Produce(&kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &r.Topic, Partition: r.Partition},
		Key:            r.Key,
		Value:          r.Value,
		Opaque:         r,
	}, nil)
	return lines.Later, lines.NotSent(err)
}

func (c *client) deliveries(producer *kafka.Producer) {
	for event := range producer.Events() {
		switch event := event.(type) {
		case *kafka.Message:
			if err := event.TopicPartition.Error; err != nil {
				c.Fail(event.Opaque.(*lines.Request), err)
			} else {
				c.Answer(event.Opaque.(*lines.Request), lines.SentAt(int64(event.TopicPartition.Offset)))
			}
		case kafka.Error:
			fmt.Fprintln(os.Stderr, "the producer reports:", event)
		}
	}
}

func (c *client) initTransactions(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	return lines.Empty, c.producer.InitTransactions(ctx)
}

func (c *client) begin(*lines.Request) (any, error) {
	return lines.Empty, c.producer.BeginTransaction()
}

func (c *client) commit(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	return lines.Empty, c.producer.CommitTransaction(ctx)
}

func (c *client) abort(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	return lines.Empty, c.producer.AbortTransaction(ctx)
}

func (c *client) sendOffsets(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	member, err := c.consumer.GetConsumerGroupMetadata()
	if err != nil {
		return nil, err
	}
	return lines.Empty, c.producer.SendOffsetsToTransaction(ctx, located(r.Offsets), member)
}

// located converts positions; the names of offsets become librdkafka's.
func located(positions []lines.Position) []kafka.TopicPartition {
	partitions := []kafka.TopicPartition{}
	for _, each := range positions {
		offset := kafka.Offset(each.Offset)
		switch each.Offset {
		case lines.Earliest:
			offset = kafka.OffsetBeginning
		case lines.Latest:
			offset = kafka.OffsetEnd
		case lines.Committed:
			offset = kafka.OffsetStored
		}
		partitions = append(partitions, kafka.TopicPartition{Topic: &each.Topic, Partition: each.Partition, Offset: offset})
	}
	return partitions
}

func (c *client) assign(r *lines.Request) (any, error) {
	if err := c.consumer.Assign(located(r.Partitions)); err != nil {
		return nil, err
	}
	c.tracker = lines.Tracker{}
	for _, each := range r.Partitions {
		c.tracker.Set(each)
	}
	return lines.Empty, nil
}

func (c *client) seek(r *lines.Request) (any, error) {
	partitions := located(r.Partitions)
	for i, each := range partitions {
		if each.Offset == kafka.OffsetStored { // librdkafka knows it in Assign only
			committed, err := c.consumer.Committed([]kafka.TopicPartition{each}, int(r.TimeoutMS))
			if err != nil {
				return nil, err
			}
			if committed[0].Offset < 0 {
				return nil, fmt.Errorf("%s has no committed offset", each)
			}
			partitions[i].Offset = committed[0].Offset
			r.Partitions[i].Offset = lines.Offset(committed[0].Offset)
		}
	}
	sought, err := c.consumer.SeekPartitions(partitions)
	if err != nil {
		return nil, err
	}
	for i, each := range sought {
		if each.Error != nil {
			return nil, each.Error
		}
		c.tracker.Set(r.Partitions[i])
	}
	return lines.Empty, nil
}

func (c *client) subscribe(r *lines.Request) (any, error) {
	c.tracker = lines.Tracker{}
	return lines.Empty, c.consumer.SubscribeTopics(r.Topics, c.rebalanced)
}

// rebalanced leaves Assign and Unassign to the library, which calls them afterwards.
func (c *client) rebalanced(consumer *kafka.Consumer, event kafka.Event) error {
	switch event := event.(type) {
	case kafka.AssignedPartitions:
		for _, each := range named(event.Partitions) {
			c.tracker.Set(lines.Position{Topic: each.Topic, Partition: each.Partition, Offset: lines.Committed})
		}
		c.Event("assigned", named(event.Partitions), nil)
	case kafka.RevokedPartitions:
		name := "revoked"
		if consumer.AssignmentLost() {
			name = "lost"
		}
		c.Event(name, named(event.Partitions), nil)
		for _, each := range named(event.Partitions) {
			c.tracker.Forget(each)
		}
	}
	return nil
}

func named(partitions []kafka.TopicPartition) []lines.Partition {
	names := []lines.Partition{}
	for _, each := range partitions {
		names = append(names, lines.Partition{Topic: *each.Topic, Partition: each.Partition})
	}
	return names
}

func (c *client) poll(r *lines.Request) (any, error) {
	var events []kafka.Event
	c.AllowEvents(func() {
		for wait := int(r.WaitMS); len(events) < r.RecordsMax; wait = 0 {
			event := c.consumer.Poll(wait)
			if event == nil {
				return
			}
			events = append(events, event)
		}
	})
	polled, failed := lines.Polled{Records: []lines.Record{}}, []error{}
	for _, event := range events {
		switch event := event.(type) {
		case *kafka.Message:
			if event.TopicPartition.Error != nil {
				failed = append(failed, event.TopicPartition.Error)
				continue
			}
			record := lines.Record{Topic: *event.TopicPartition.Topic, Partition: event.TopicPartition.Partition,
				Offset: int64(event.TopicPartition.Offset), Timestamp: event.Timestamp.UnixMilli(),
				Key: event.Key, Value: event.Value}
			next := lines.Position{Topic: record.Topic, Partition: record.Partition, Offset: lines.Offset(record.Offset + 1)}
			if c.tracker.Move(next) { // otherwise it was revoked within this poll
				polled.Records = append(polled.Records, record)
			}
		case kafka.PartitionEOF:
			c.tracker.Move(lines.Position{Topic: *event.Topic, Partition: event.Partition, Offset: lines.Offset(event.Offset)})
		case kafka.Error:
			failed = append(failed, event)
		}
	}
	if len(failed) > 0 && len(polled.Records) == 0 {
		return nil, errors.Join(failed...)
	}
	for _, each := range failed {
		polled.Errors = append(polled.Errors, describe(each))
	}
	polled.Positions = c.tracker.Known()
	return polled, nil
}

func (c *client) ask(*lines.Request) (any, error) {
	return lines.Positions{Positions: c.tracker.Known()}, nil
}

func (c *client) commitOffsets(r *lines.Request) (any, error) {
	committed, err := c.consumer.CommitOffsets(located(r.Offsets))
	for _, each := range committed {
		err = errors.Join(err, each.Error)
	}
	return lines.Empty, err
}

// close of a consumer always leaves the group: confluent-kafka-go has no other way to end its membership.
func (c *client) close(r *lines.Request) (any, error) {
	if r.Role == "producer" {
		if c.producer != nil {
			c.producer.Close()
			c.producer = nil
		}
		return lines.Empty, nil
	}
	var err error
	if c.consumer != nil {
		c.AllowEvents(func() { err = c.consumer.Close() })
		c.consumer = nil
	}
	return lines.Empty, err
}

func describe(err error) lines.Error {
	described := lines.Error{Code: fmt.Sprintf("%T", err), Text: err.Error()}
	failed, ok := errors.AsType[kafka.Error](err)
	if !ok {
		return described
	}
	described.Code = failed.Code().String() // librdkafka's own errors have negative numbers
	if failed.Code() >= -1 {
		described.Code = lines.ErrorName(int(failed.Code()))
	}
	switch {
	case failed.IsFatal():
		described.Kind = "fatal"
	case failed.TxnRequiresAbort():
		described.Kind = "abortable"
	case failed.IsRetriable():
		described.Kind = "retriable"
	}
	return described
}

func main() {
	c := &client{}
	_, version := kafka.LibraryVersion()
	c.Lines = lines.New(lines.Program{
		Library: "confluent-kafka-go",
		Version: lines.Version("github.com/confluentinc/confluent-kafka-go/v2") +
			" (librdkafka " + strings.TrimPrefix(version, "v") + ")",
		Describe: describe,
		Capabilities: []string{"produce", "consume", "idempotence", "transactions", "groups", "groups-consumer",
			"send-offsets"},
		Do: map[string]func(*lines.Request) (any, error){
			"open": c.open, "close": c.close, "send": c.send, "init_transactions": c.initTransactions,
			"begin": c.begin, "commit": c.commit, "abort": c.abort, "send_offsets": c.sendOffsets,
			"assign": c.assign, "seek": c.seek, "subscribe": c.subscribe, "poll": c.poll,
			"positions": c.ask, "commit_offsets": c.commitOffsets,
		},
	})
	c.Serve()
}
