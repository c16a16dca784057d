// kafka-go as a client program: see docs/use/your-own-client.md.
//
// kafka-go has neither idempotence nor transactions. A Reader reads one partition; in a group, there is one for each
// partition of a generation, as in the library's example of a ConsumerGroup.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"example/lines"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

var balancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

type client struct {
	*lines.Lines

	producer *kafka.Writer

	opened       *lines.Request // the consumer
	readerConfig kafka.ReaderConfig
	kafka        *kafka.Client
	records      chan kafka.Message
	errors       chan error
	tracker      lines.Tracker

	direct map[lines.Partition]*reading // after assign

	group *kafka.ConsumerGroup // after subscribe
	left  chan struct{}

	lock       sync.Mutex
	generation *kafka.Generation
}

// reading is a partition that was assigned by the harness.
type reading struct {
	stop    context.CancelFunc
	stopped chan struct{}
}

func (c *client) open(r *lines.Request) (any, error) {
	security, err := r.SecuritySettings()
	if err != nil {
		return nil, err
	}
	var mechanism sasl.Mechanism
	switch security.Mechanism {
	case "":
	case "PLAIN":
		mechanism = plain.Mechanism{Username: security.Username, Password: security.Password}
	case "SCRAM-SHA-256":
		mechanism, err = scram.Mechanism(scram.SHA256, security.Username, security.Password)
	case "SCRAM-SHA-512":
		mechanism, err = scram.Mechanism(scram.SHA512, security.Username, security.Password)
	default:
		err = fmt.Errorf("the SASL mechanism %s is not supported", security.Mechanism)
	}
	if err != nil {
		return nil, err
	}
	servers := strings.Split(r.Bootstrap, ",")
	transport := &kafka.Transport{ClientID: r.ClientID, TLS: security.TLS, SASL: mechanism, DialTimeout: r.RequestTimeout()}
	logger := log.New(os.Stderr, "", log.LstdFlags)
	if r.Role == "producer" {
		return lines.Empty, c.openProducer(r, &kafka.Writer{
			Addr: kafka.TCP(servers...), Transport: transport, ErrorLogger: logger})
	}
	c.opened = r
	c.kafka = &kafka.Client{Addr: kafka.TCP(servers...), Transport: transport, Timeout: r.RequestTimeout()}
	c.readerConfig = kafka.ReaderConfig{
		Brokers: servers,
		Dialer: &kafka.Dialer{ClientID: r.ClientID, TLS: security.TLS, SASLMechanism: mechanism,
			Timeout: r.RequestTimeout(), DualStack: true},
		MaxWait:     500 * time.Millisecond, // a Reader closes when the fetch has ended
		ErrorLogger: logger,
	}
	c.records, c.errors, c.direct = make(chan kafka.Message), make(chan error, 100), map[lines.Partition]*reading{}
	return lines.Empty, lines.SetFields(&c.readerConfig, r.Properties)
}

func (c *client) openProducer(r *lines.Request, writer *kafka.Writer) error {
	if r.Idempotence || r.TransactionalID != nil {
		return errors.New("kafka-go has no idempotent producer")
	}
	writer.RequiredAcks = map[lines.Acks]kafka.RequiredAcks{
		"all": kafka.RequireAll, "1": kafka.RequireOne, "0": kafka.RequireNone}[r.Acks]
	writer.BatchTimeout = time.Millisecond
	writer.ReadTimeout, writer.WriteTimeout = r.RequestTimeout(), r.RequestTimeout()
	if r.Retries != nil {
		writer.MaxAttempts = *r.Retries + 1
	}
	writer.Balancer = kafka.BalancerFunc(func(message kafka.Message, _ ...int) int {
		return int(message.WriterData.(*lines.Request).Partition)
	})
	writer.Async = true
	writer.Completion = func(messages []kafka.Message, err error) {
		for _, each := range messages {
			switch request := each.WriterData.(*lines.Request); {
			case err != nil:
				c.Fail(request, err)
			case writer.RequiredAcks == kafka.RequireNone:
				c.Answer(request, lines.Sent{})
			default:
				c.Answer(request, lines.SentAt(each.Offset))
			}
		}
	}
	c.producer = writer
	return lines.SetFields(writer, r.Properties)
}

func (c *client) send(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	message := kafka.Message{Topic: r.Topic, Key: r.Key, Value: r.Value, WriterData: r}
	return lines.Later, lines.NotSent(c.producer.WriteMessages(ctx, message)) // of an asynchronous Writer: not taken
}

func (c *client) assign(r *lines.Request) (any, error) {
	for each := range c.direct {
		c.stop(each)
	}
	return c.seek(r)
}

// seek closes Readers and creates others. SetOffset would leave the messages that were read ahead, and a message that
// waits for a poll.
func (c *client) seek(r *lines.Request) (any, error) {
	if c.group != nil {
		return nil, errors.New("in a group, kafka-go cannot seek")
	}
	for _, each := range r.Partitions {
		if each.Offset == lines.Committed {
			offset, err := c.committed(r, each)
			if err != nil {
				return nil, err
			}
			each.Offset = offset
		}
		c.stop(each.Of())
		ctx, stop := context.WithCancel(context.Background())
		started := &reading{stop, make(chan struct{})}
		c.direct[each.Of()] = started
		c.tracker.Set(each)
		go func() {
			defer close(started.stopped)
			c.read(ctx, each)
		}()
	}
	return lines.Empty, nil
}

func (c *client) stop(partition lines.Partition) {
	if started := c.direct[partition]; started != nil {
		started.stop()
		<-started.stopped
		delete(c.direct, partition)
		c.tracker.Forget(partition)
	}
}

// read hands the messages of a partition, one at a time, to the polls. Earliest and Latest are kafka-go's FirstOffset
// and LastOffset.
func (c *client) read(ctx context.Context, at lines.Position) {
	config := c.readerConfig
	config.Topic, config.Partition = at.Topic, int(at.Partition)
	reader := kafka.NewReader(config)
	defer reader.Close()
	if err := reader.SetOffset(int64(at.Offset)); err != nil {
		c.report(err)
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.report(err)
			continue
		}
		select {
		case c.records <- message:
		case <-ctx.Done():
			return
		}
	}
}

func (c *client) report(err error) {
	select {
	case c.errors <- err:
	default: // enough errors for the next poll
	}
}

func (c *client) committed(r *lines.Request, each lines.Position) (lines.Offset, error) {
	ctx, cancel := r.Context()
	defer cancel()
	fetched, err := c.kafka.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: c.opened.Group, Topics: map[string][]int{each.Topic: {int(each.Partition)}}})
	if err != nil {
		return 0, err
	}
	if fetched.Error != nil {
		return 0, fetched.Error
	}
	for _, partition := range fetched.Topics[each.Topic] {
		switch {
		case partition.Error != nil:
			return 0, partition.Error
		case partition.CommittedOffset >= 0:
			return lines.Offset(partition.CommittedOffset), nil
		}
	}
	if c.opened.AutoOffsetReset == "none" {
		return 0, fmt.Errorf("%s-%d has no committed offset", each.Topic, each.Partition)
	}
	return lines.Offset(c.startOffset()), nil
}

func (c *client) startOffset() int64 {
	if c.opened.AutoOffsetReset == "latest" {
		return kafka.LastOffset
	}
	return kafka.FirstOffset
}

func (c *client) subscribe(r *lines.Request) (any, error) {
	switch {
	case c.opened.GroupProtocol != "classic":
		return nil, errors.New("kafka-go has the classic group protocol only")
	case c.opened.AutoCommit:
		return nil, errors.New("a ConsumerGroup of kafka-go does not commit by itself")
	case c.opened.AutoOffsetReset == "none":
		return nil, errors.New("in a group, kafka-go always resets to the earliest or latest offset")
	}
	config := kafka.ConsumerGroupConfig{
		ID:                c.opened.Group,
		Brokers:           c.readerConfig.Brokers,
		Dialer:            c.readerConfig.Dialer,
		Topics:            r.Topics,
		SessionTimeout:    c.opened.SessionTimeout(),
		HeartbeatInterval: min(3*time.Second, c.opened.SessionTimeout()/3),
		StartOffset:       c.startOffset(),
		ErrorLogger:       c.readerConfig.ErrorLogger,
	}
	if c.opened.Assignor != nil {
		balancer := balancers[*c.opened.Assignor]
		if balancer == nil {
			return nil, fmt.Errorf("kafka-go has no assignor %s", *c.opened.Assignor)
		}
		config.GroupBalancers = []kafka.GroupBalancer{balancer}
	}
	group, err := kafka.NewConsumerGroup(config)
	if err != nil {
		return nil, err
	}
	left := make(chan struct{})
	c.group, c.left = group, left
	go func() {
		defer close(left)
		for {
			generation, err := group.Next(context.Background())
			if errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err != nil {
				c.report(err)
				continue
			}
			c.begin(generation)
		}
	}()
	return lines.Empty, nil
}

// begin starts to read the partitions of a generation. The generation ends when these functions have returned; until
// then, its offsets can be committed.
func (c *client) begin(generation *kafka.Generation) {
	c.lock.Lock()
	c.generation = generation
	c.lock.Unlock()
	for topic, assignments := range generation.Assignments {
		for _, each := range assignments {
			at := lines.Position{Topic: topic, Partition: int32(each.ID), Offset: lines.Offset(each.Offset)}
			generation.Start(func(ctx context.Context) {
				c.Event("assigned", []lines.Partition{at.Of()}, nil)
				c.tracker.Set(at)
				c.read(ctx, at)
				c.tracker.Forget(at.Of())
				c.Event("revoked", []lines.Partition{at.Of()}, nil)
			})
		}
	}
}

func (c *client) poll(r *lines.Request) (any, error) {
	var messages []kafka.Message
	var failed []error
	c.AllowEvents(func() {
		wait := time.After(r.Wait())
		for len(messages) < r.RecordsMax && len(failed) == 0 {
			select {
			case message := <-c.records:
				messages = append(messages, message)
				wait = time.After(time.Millisecond) // for what else is there
			case err := <-c.errors:
				failed = append(failed, err)
			case <-wait:
				return
			}
		}
	})
	polled := lines.Polled{Records: []lines.Record{}}
	for _, each := range messages {
		record := lines.Record{Topic: each.Topic, Partition: int32(each.Partition), Offset: each.Offset,
			Timestamp: each.Time.UnixMilli(), Key: each.Key, Value: each.Value}
		next := lines.Position{Topic: each.Topic, Partition: record.Partition, Offset: lines.Offset(each.Offset + 1)}
		if c.tracker.Move(next) { // otherwise it was revoked while this poll waited
			polled.Records = append(polled.Records, record)
		}
	}
	if len(failed) > 0 && len(polled.Records) == 0 {
		return nil, failed[0]
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
	c.lock.Lock()
	generation := c.generation
	c.lock.Unlock()
	if generation == nil {
		return nil, errors.New("there is no generation of the group")
	}
	offsets := map[string]map[int]int64{}
	for _, each := range r.Offsets {
		if offsets[each.Topic] == nil {
			offsets[each.Topic] = map[int]int64{}
		}
		offsets[each.Topic][int(each.Partition)] = int64(each.Offset)
	}
	return lines.Empty, generation.CommitOffsets(offsets)
}

// close always leaves the group: kafka-go has no other way to end its membership.
func (c *client) close(r *lines.Request) (any, error) {
	if r.Role == "producer" {
		if c.producer != nil {
			go c.producer.Close() // it flushes, which is not waited for
			c.producer = nil
		}
		return lines.Empty, nil
	}
	for each := range c.direct {
		c.stop(each)
	}
	if c.group != nil {
		c.AllowEvents(func() {
			_ = c.group.Close()
			<-c.left
		})
		c.group, c.generation = nil, nil
	}
	return lines.Empty, nil
}

func describe(err error) lines.Error {
	if several, ok := errors.AsType[kafka.WriteErrors](err); ok && len(several) > 0 {
		err = several[0]
	}
	described := lines.Error{Code: fmt.Sprintf("%T", err), Text: err.Error()}
	if code, ok := errors.AsType[kafka.Error](err); ok {
		described.Code = lines.ErrorName(int(code))
		if code.Temporary() {
			described.Kind = "retriable"
		}
	}
	return described
}

func main() {
	c := &client{}
	c.Lines = lines.New(lines.Program{
		Library:      "kafka-go",
		Version:      lines.Version("github.com/segmentio/kafka-go"),
		Describe:     describe,
		Capabilities: []string{"produce", "consume", "groups"},
		Do: map[string]func(*lines.Request) (any, error){
			"open": c.open, "close": c.close, "send": c.send, "assign": c.assign, "seek": c.seek,
			"subscribe": c.subscribe, "poll": c.poll, "positions": c.ask, "commit_offsets": c.commitOffsets,
		},
	})
	c.Serve()
}
