// Sarama as a client program: see docs/use/your-own-client.md.
//
// Sarama runs one goroutine for each partition that is consumed; each hands its messages, one at a time, to the polls.
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

	"github.com/IBM/sarama"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"cooperative-sticky": cooperativeSticky,
}

type client struct {
	*lines.Lines

	producerOpened *lines.Request
	producerConfig *sarama.Config
	producerClient sarama.Client
	producer       sarama.AsyncProducer

	consumerOpened *lines.Request
	consumerClient sarama.Client
	records        chan *sarama.ConsumerMessage
	errors         chan error

	consumer sarama.Consumer // after assign
	direct   map[lines.Partition]*direct

	leave   context.CancelFunc // after subscribe
	left    chan struct{}
	group   sarama.ConsumerGroup
	session sarama.ConsumerGroupSession

	lock    sync.Mutex // of the session
	tracker lines.Tracker
}

// direct is a partition that was assigned by the harness.
type direct struct {
	stop, stopped chan struct{}
}

func (c *client) open(r *lines.Request) (any, error) {
	config := sarama.NewConfig()
	config.ClientID = r.ClientID
	config.Version = sarama.MaxVersion
	config.Net.DialTimeout, config.Net.ReadTimeout = r.RequestTimeout(), r.RequestTimeout()
	config.Net.WriteTimeout = r.RequestTimeout()
	security, err := r.SecuritySettings()
	if err != nil {
		return nil, err
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = security.TLS != nil, security.TLS
	switch security.Mechanism {
	case "":
	case "PLAIN":
		config.Net.SASL.Enable = true
		config.Net.SASL.User, config.Net.SASL.Password = security.Username, security.Password
	default: // Sarama leaves SCRAM to another library
		return nil, fmt.Errorf("the SASL mechanism %s is not supported", security.Mechanism)
	}
	if r.Role == "producer" {
		return lines.Empty, c.openProducer(r, config)
	}
	return lines.Empty, c.openConsumer(r, config)
}

func (c *client) openProducer(r *lines.Request, config *sarama.Config) error {
	config.Producer.RequiredAcks = map[lines.Acks]sarama.RequiredAcks{
		"all": sarama.WaitForAll, "1": sarama.WaitForLocal, "0": sarama.NoResponse}[r.Acks]
	config.Producer.Idempotent = r.Idempotence
	if r.Idempotence {
		config.Net.MaxOpenRequests = 1 // Sarama asks for it
	}
	if r.Retries != nil {
		config.Producer.Retry.Max = *r.Retries
	}
	if r.TransactionalID != nil {
		config.Producer.Transaction.ID = *r.TransactionalID
		config.Producer.Transaction.Timeout = r.TransactionTimeout()
	}
	config.Producer.Timeout = r.RequestTimeout()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	if err := lines.SetFields(config, r.Properties); err != nil {
		return err
	}
	c.producerOpened, c.producerConfig = r, config
	if r.TransactionalID != nil {
		return config.Validate() // NewAsyncProducer fences other producers: see init_transactions
	}
	return c.newProducer()
}

func (c *client) newProducer() error {
	servers := strings.Split(c.producerOpened.Bootstrap, ",")
	client, err := sarama.NewClient(servers, c.producerConfig)
	if err != nil {
		return err
	}
	producer, err := sarama.NewAsyncProducerFromClient(client)
	if err != nil {
		_ = client.Close()
		return err
	}
	c.producerClient, c.producer = client, producer
	acks := c.producerOpened.Acks
	go func() {
		for message := range producer.Successes() {
			if acks == "0" {
				c.Answer(message.Metadata.(*lines.Request), lines.Sent{})
			} else {
				c.Answer(message.Metadata.(*lines.Request), lines.SentAt(message.Offset))
			}
		}
	}()
	go func() {
		for failed := range producer.Errors() {
			err := failed.Err
			if producer.IsTransactional() {
				err = ofTransaction(producer, err)
			}
			c.Fail(failed.Msg.Metadata.(*lines.Request), err)
		}
	}()
	return nil
}

func (c *client) openConsumer(r *lines.Request, config *sarama.Config) error {
	if r.GroupProtocol != "classic" {
		return errors.New("Sarama has the classic group protocol only")
	}
	// JoinGroup is answered when the other members have joined or timed out.
	config.Net.ReadTimeout = max(r.RequestTimeout(), r.SessionTimeout()+r.RequestTimeout())
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = r.AutoCommit
	if r.IsolationLevel == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	switch r.AutoOffsetReset {
	case "earliest":
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
	case "none":
		config.Consumer.Group.ResetInvalidOffsets = false
	}
	config.Consumer.Group.Session.Timeout = r.SessionTimeout()
	config.Consumer.Group.Heartbeat.Interval = min(3*time.Second, r.SessionTimeout()/3)
	if r.Assignor != nil {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[*r.Assignor]()}
	}
	if err := lines.SetFields(config, r.Properties); err != nil {
		return err
	}
	client, err := sarama.NewClient(strings.Split(r.Bootstrap, ","), config)
	if err != nil {
		return err
	}
	c.consumerOpened, c.consumerClient = r, client
	c.records, c.errors = make(chan *sarama.ConsumerMessage), make(chan error, 100)
	c.direct = map[lines.Partition]*direct{}
	return nil
}

func (c *client) send(r *lines.Request) (any, error) {
	message := &sarama.ProducerMessage{Topic: r.Topic, Partition: r.Partition, Metadata: r}
	if r.Key != nil {
		message.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		message.Value = sarama.ByteEncoder(r.Value)
	}
	c.producer.Input() <- message
	return lines.Later, nil
}

func (c *client) initTransactions(*lines.Request) (any, error) {
	return lines.Empty, c.newProducer()
}

// ofTransaction returns an error of the producer with its kind, as in Sarama's example of a transactional producer.
func ofTransaction(producer sarama.AsyncProducer, err error) error {
	switch status := producer.TxnStatus(); {
	case err == nil:
		return nil
	case status&sarama.ProducerTxnFlagFatalError != 0:
		return lines.WithKind(err, "fatal")
	case status&sarama.ProducerTxnFlagAbortableError != 0:
		return lines.WithKind(err, "abortable")
	}
	return lines.WithKind(err, "retriable")
}

func (c *client) begin(*lines.Request) (any, error) {
	return lines.Empty, ofTransaction(c.producer, c.producer.BeginTxn())
}

func (c *client) commit(*lines.Request) (any, error) {
	return lines.Empty, ofTransaction(c.producer, c.producer.CommitTxn())
}

func (c *client) abort(*lines.Request) (any, error) {
	return lines.Empty, ofTransaction(c.producer, c.producer.AbortTxn())
}

func (c *client) sendOffsets(r *lines.Request) (any, error) {
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, each := range r.Offsets {
		offsets[each.Topic] = append(offsets[each.Topic],
			&sarama.PartitionOffsetMetadata{Partition: each.Partition, Offset: int64(each.Offset)})
	}
	return lines.Empty, ofTransaction(c.producer, c.addOffsets(offsets))
}

func (c *client) assign(r *lines.Request) (any, error) {
	if c.consumer == nil {
		consumer, err := sarama.NewConsumerFromClient(c.consumerClient)
		if err != nil {
			return nil, err
		}
		c.consumer = consumer
	}
	for each := range c.direct {
		c.stop(each)
	}
	return c.seek(r)
}

// seek closes partition consumers and creates others: there is no other way in Sarama, and none in a group.
func (c *client) seek(r *lines.Request) (any, error) {
	if c.consumer == nil {
		return nil, errors.New("in a group, Sarama cannot seek")
	}
	for _, each := range r.Partitions {
		if each.Offset == lines.Committed {
			committed, err := c.committed([]lines.Position{each})
			if err != nil {
				return nil, err
			}
			each.Offset = committed[0]
			if each.Offset < 0 {
				each.Offset = lines.Offset(c.consumerClient.Config().Consumer.Offsets.Initial)
			}
		}
		c.stop(each.Of())
		if err := c.start(each); err != nil {
			return nil, err
		}
	}
	return lines.Empty, nil
}

// start consumes a partition. Earliest and Latest are Sarama's OffsetOldest and OffsetNewest.
func (c *client) start(at lines.Position) error {
	consuming, err := c.consumer.ConsumePartition(at.Topic, at.Partition, int64(at.Offset))
	if errors.Is(err, sarama.ErrOffsetOutOfRange) && c.consumerOpened.AutoOffsetReset != "none" {
		at.Offset = lines.Offset(c.consumerClient.Config().Consumer.Offsets.Initial)
		consuming, err = c.consumer.ConsumePartition(at.Topic, at.Partition, int64(at.Offset))
	}
	if err != nil {
		return err
	}
	partition := at.Of()
	started := &direct{make(chan struct{}), make(chan struct{})}
	c.direct[partition] = started
	c.tracker.Set(at)
	go func() {
		for failed := range consuming.Errors() {
			c.report(failed)
		}
	}()
	go func() {
		defer close(started.stopped)
		c.hand(consuming.Messages(), started.stop)
		_ = consuming.Close()
	}()
	return nil
}

func (c *client) stop(partition lines.Partition) {
	if started := c.direct[partition]; started != nil {
		close(started.stop)
		<-started.stopped
		delete(c.direct, partition)
		c.tracker.Forget(partition)
	}
}

// hand gives messages to the polls, until there are no more or the end.
func (c *client) hand(messages <-chan *sarama.ConsumerMessage, end <-chan struct{}) {
	for {
		select {
		case message, open := <-messages:
			if !open {
				return
			}
			select {
			case c.records <- message:
			case <-end:
				return
			}
		case <-end:
			return
		}
	}
}

func (c *client) subscribe(r *lines.Request) (any, error) {
	if c.consumerOpened.AutoOffsetReset == "none" {
		return nil, errors.New("in a group, Sarama always resets to the earliest or latest offset")
	}
	group, err := sarama.NewConsumerGroupFromClient(c.consumerOpened.Group, c.consumerClient)
	if err != nil {
		return nil, err
	}
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan struct{})
	c.group, c.leave, c.left = group, leave, left
	go func() {
		for err := range group.Errors() {
			c.report(err)
		}
	}()
	go func() {
		defer close(left)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, r.Topics, c); err != nil && ctx.Err() == nil {
				c.report(err)
				time.Sleep(c.consumerClient.Config().Metadata.Retry.Backoff)
			}
		}
	}()
	return lines.Empty, nil
}

// Setup, ConsumeClaim and Cleanup are called by the consumer group. A partition is assigned when its claim begins, and
// revoked when it ends; only then Sarama lets it go.
func (c *client) Setup(session sarama.ConsumerGroupSession) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.session = session
	return nil
}

func (c *client) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	partition := lines.Partition{Topic: claim.Topic(), Partition: claim.Partition()}
	position := lines.Position{Topic: claim.Topic(), Partition: claim.Partition(), Offset: lines.Offset(claim.InitialOffset())}
	c.Event("assigned", []lines.Partition{partition}, nil)
	c.tracker.Set(position)
	c.hand(claim.Messages(), session.Context().Done())
	c.tracker.Forget(partition)
	cause, event := context.Cause(session.Context()), "revoked"
	if errors.Is(cause, sarama.ErrUnknownMemberId) || errors.Is(cause, sarama.ErrIllegalGeneration) {
		event = "lost"
	}
	c.Event(event, []lines.Partition{partition}, nil)
	return nil
}

func (c *client) Cleanup(sarama.ConsumerGroupSession) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.session = nil
	return nil
}

func (c *client) currentSession() sarama.ConsumerGroupSession {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.session
}

func (c *client) report(err error) {
	select {
	case c.errors <- err:
	default: // enough errors for the next poll
	}
}

func (c *client) poll(r *lines.Request) (any, error) {
	var messages []*sarama.ConsumerMessage
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
		position := lines.Position{Topic: each.Topic, Partition: each.Partition, Offset: lines.Offset(each.Offset + 1)}
		if !c.tracker.Move(position) {
			continue // it was revoked while this poll waited
		}
		polled.Records = append(polled.Records, lines.Record{Topic: each.Topic, Partition: each.Partition,
			Offset: each.Offset, Timestamp: each.Timestamp.UnixMilli(), Key: each.Key, Value: each.Value})
		if session := c.currentSession(); session != nil && c.consumerOpened.AutoCommit {
			session.MarkMessage(each, "")
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

// ask returns the positions after the last message: Sarama does not say whether it has read beyond markers.
func (c *client) ask(*lines.Request) (any, error) {
	return lines.Positions{Positions: c.tracker.Known()}, nil
}

// commitOffsets reads the offsets back: Commit does not return whether the coordinator has acknowledged them.
func (c *client) commitOffsets(r *lines.Request) (any, error) {
	session := c.currentSession()
	if session == nil {
		return nil, errors.New("there is no session of the group")
	}
	for _, each := range r.Offsets {
		session.ResetOffset(each.Topic, each.Partition, int64(each.Offset), "")
		session.MarkOffset(each.Topic, each.Partition, int64(each.Offset), "")
	}
	session.Commit()
	committed, err := c.committed(r.Offsets)
	if err != nil {
		return nil, err
	}
	for i, each := range r.Offsets {
		if committed[i] != each.Offset {
			return nil, fmt.Errorf("%w: %s-%d is at %d, not %d", errNotCommitted,
				each.Topic, each.Partition, committed[i], each.Offset)
		}
	}
	return lines.Empty, nil
}

var errNotCommitted = errors.New("Commit has not committed")

// committed returns the offsets that the group has committed, -1 for none.
func (c *client) committed(positions []lines.Position) ([]lines.Offset, error) {
	admin, err := sarama.NewClusterAdminFromClient(c.consumerClient)
	if err != nil {
		return nil, err
	}
	partitions := map[string][]int32{}
	for _, each := range positions {
		partitions[each.Topic] = append(partitions[each.Topic], each.Partition)
	}
	fetched, err := admin.ListConsumerGroupOffsets(c.consumerOpened.Group, partitions)
	if err != nil {
		return nil, err
	}
	offsets := []lines.Offset{}
	for _, each := range positions {
		block := fetched.GetBlock(each.Topic, each.Partition)
		if block == nil {
			return nil, sarama.ErrIncompleteResponse
		}
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		offsets = append(offsets, lines.Offset(block.Offset))
	}
	return offsets, nil
}

func (c *client) close(r *lines.Request) (any, error) {
	if r.Role == "producer" {
		if c.producer != nil {
			_ = c.producerClient.Close() // first, so that nothing is flushed
			c.producer.AsyncClose()
			c.producer = nil
		}
		return lines.Empty, nil
	}
	for each := range c.direct {
		c.stop(each)
	}
	if c.group != nil {
		c.AllowEvents(func() {
			c.leave()
			<-c.left
			if r.Leave {
				_ = c.group.Close()
			}
		})
	}
	c.group, c.consumer = nil, nil
	if c.consumerClient != nil {
		_ = c.consumerClient.Close()
	}
	return lines.Empty, nil
}

func describe(err error) lines.Error {
	described := lines.Error{Code: fmt.Sprintf("%T", err), Text: err.Error()}
	if kafka, ok := errors.AsType[sarama.KError](err); ok {
		described.Code = lines.ErrorName(int(kafka))
	} else if errors.Is(err, errNotCommitted) {
		described.Code = "errNotCommitted"
	}
	return described
}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	c := &client{}
	c.Lines = lines.New(lines.Program{
		Library:      "Sarama",
		Version:      lines.Version("github.com/IBM/sarama"),
		Describe:     describe,
		Capabilities: []string{"produce", "consume", "idempotence", "transactions", "groups", "send-offsets"},
		Do: map[string]func(*lines.Request) (any, error){
			"open": c.open, "close": c.close, "send": c.send, "init_transactions": c.initTransactions,
			"begin": c.begin, "commit": c.commit, "abort": c.abort, "send_offsets": c.sendOffsets,
			"assign": c.assign, "seek": c.seek, "subscribe": c.subscribe, "poll": c.poll,
			"positions": c.ask, "commit_offsets": c.commitOffsets,
		},
	})
	c.Serve()
}
