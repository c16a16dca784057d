// franz-go as a client program: see docs/use/your-own-client.md.
//
// The offsets of a transaction (send_offsets) are missing: franz-go commits them only by GroupTransactSession, which
// needs one client that both consumes and produces.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"example/lines"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The options that a user may set, by their names.
var options = map[string]any{
	"AutoCommitInterval":                  kgo.AutoCommitInterval,
	"ConcurrentTransactionsBackoff":       kgo.ConcurrentTransactionsBackoff,
	"DialTimeout":                         kgo.DialTimeout,
	"FetchMaxBytes":                       kgo.FetchMaxBytes,
	"FetchMaxPartitionBytes":              kgo.FetchMaxPartitionBytes,
	"FetchMaxWait":                        kgo.FetchMaxWait,
	"HeartbeatInterval":                   kgo.HeartbeatInterval,
	"MaxProduceRequestsInflightPerBroker": kgo.MaxProduceRequestsInflightPerBroker,
	"MetadataMaxAge":                      kgo.MetadataMaxAge,
	"MetadataMinAge":                      kgo.MetadataMinAge,
	"ProduceRequestTimeout":               kgo.ProduceRequestTimeout,
	"ProducerBatchMaxBytes":               kgo.ProducerBatchMaxBytes,
	"ProducerLinger":                      kgo.ProducerLinger,
	"RebalanceTimeout":                    kgo.RebalanceTimeout,
	"RequestRetries":                      kgo.RequestRetries,
	"RetryTimeout":                        kgo.RetryTimeout,
	"UnknownTopicRetries":                 kgo.UnknownTopicRetries,
}

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

type client struct {
	*lines.Lines
	producer, consumer *kgo.Client
	acks               lines.Acks
	consumerOpened     *lines.Request // the consumer is created by assign or subscribe
	consumerOptions    []kgo.Opt
	direct             bool // assign was called, not subscribe
	assigned           map[lines.Partition]bool
	tracker            lines.Tracker
}

func (c *client) open(r *lines.Request) (any, error) {
	opts, err := common(r)
	if err != nil {
		return nil, err
	}
	if r.Role == "producer" {
		c.producer, err = kgo.NewClient(append(producing(r), opts...)...)
		c.acks = r.Acks
		return lines.Empty, err
	}
	c.consumerOpened, c.consumerOptions = r, append(consuming(r), opts...)
	c.assigned = map[lines.Partition]bool{}
	return lines.Empty, nil
}

func common(r *lines.Request) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(r.Bootstrap, ",")...),
		kgo.ClientID(r.ClientID),
		kgo.RequestTimeoutOverhead(r.RequestTimeout()),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	}
	security, err := r.SecuritySettings()
	if err != nil {
		return nil, err
	}
	if security.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(security.TLS))
	}
	scrams := scram.Auth{User: security.Username, Pass: security.Password}
	switch security.Mechanism {
	case "":
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: security.Username, Pass: security.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scrams.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scrams.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("the SASL mechanism %s is not supported", security.Mechanism)
	}
	for name, setting := range r.Properties {
		option := reflect.ValueOf(options[name])
		if !option.IsValid() {
			return nil, fmt.Errorf("there is no setting %s", name)
		}
		value, err := lines.Decode(setting, option.Type().In(0))
		if err != nil {
			return nil, fmt.Errorf("the setting %s: %w", name, err)
		}
		opts = append(opts, option.Call([]reflect.Value{value})[0].Interface().(kgo.Opt))
	}
	return opts, nil
}

func producing(r *lines.Request) []kgo.Opt {
	acks := map[lines.Acks]kgo.Acks{"all": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()}
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(acks[r.Acks]),
		kgo.ProducerLinger(0),
		kgo.ProduceRequestTimeout(r.RequestTimeout()),
		kgo.RecordDeliveryTimeout(r.DeliveryTimeout()),
	}
	if !r.Idempotence {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if r.Retries != nil {
		opts = append(opts, kgo.RecordRetries(*r.Retries))
	}
	if r.TransactionalID != nil {
		opts = append(opts, kgo.TransactionalID(*r.TransactionalID), kgo.TransactionTimeout(r.TransactionTimeout()))
	}
	return opts
}

func consuming(r *lines.Request) []kgo.Opt {
	opts := []kgo.Opt{kgo.KeepControlRecords()} // to know positions beyond the markers of transactions
	if r.IsolationLevel == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	switch r.AutoOffsetReset {
	case "earliest":
		opts = append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	case "latest":
		opts = append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	case "none":
		opts = append(opts, kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	}
	return opts
}

func (c *client) grouped(r *lines.Request) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(r.Group),
		kgo.BlockRebalanceOnPoll(), // so that rebalances happen within polls
		kgo.OnPartitionsAssigned(c.rebalanced("assigned")),
		kgo.OnPartitionsRevoked(c.rebalanced("revoked")),
		kgo.OnPartitionsLost(c.rebalanced("lost")),
	}
	if r.AutoOffsetReset == "none" {
		opts = append(opts, kgo.ConsumeStartOffset(kgo.NewOffset().AtCommitted()))
	}
	if !r.AutoCommit {
		opts = append(opts, kgo.DisableAutoCommit())
	}
	switch {
	case r.GroupProtocol == "consumer" && r.Assignor != nil && *r.Assignor == "range":
		return append(opts, serverSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	case r.GroupProtocol == "consumer":
		return append(opts, serverSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	case r.Assignor != nil:
		opts = append(opts, kgo.Balancers(balancers[*r.Assignor]()))
	}
	return append(opts, kgo.SessionTimeout(r.SessionTimeout()),
		kgo.HeartbeatInterval(min(3*time.Second, r.SessionTimeout()/3)))
}

func (c *client) rebalanced(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, cl *kgo.Client, named map[string][]int32) {
		partitions := []lines.Partition{}
		for topic, numbers := range named {
			for _, number := range numbers {
				partitions = append(partitions, lines.Partition{Topic: topic, Partition: number})
			}
		}
		c.Event(event, partitions, nil)
		if event == "revoked" && c.consumerOpened.AutoCommit { // with a callback, the library does not do it
			if err := cl.CommitUncommittedOffsets(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "the commit of a revocation failed:", err)
			}
		}
		for _, each := range partitions {
			if event == "assigned" {
				c.tracker.Set(lines.Position{Topic: each.Topic, Partition: each.Partition, Offset: lines.Committed})
			} else {
				c.tracker.Forget(each)
			}
		}
	}
}

func (c *client) send(r *lines.Request) (any, error) {
	record := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	c.producer.Produce(context.Background(), record, func(record *kgo.Record, err error) {
		switch {
		case err != nil:
			c.Fail(r, err)
		case c.acks == "0":
			c.Answer(r, lines.Sent{})
		default:
			c.Answer(r, lines.SentAt(record.Offset))
		}
	})
	return lines.Later, nil
}

func (c *client) initTransactions(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	_, _, err := c.producer.ProducerID(ctx)
	return lines.Empty, err
}

func (c *client) begin(*lines.Request) (any, error) {
	return lines.Empty, c.producer.BeginTransaction()
}

// EndTransaction must not be repeated after an error, nor cancelled: see its documentation.
func (c *client) commit(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	if err := c.producer.Flush(ctx); err != nil {
		return nil, err
	}
	return ended(c.producer.EndTransaction(context.Background(), kgo.TryCommit))
}

func (c *client) abort(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	if err := c.producer.AbortBufferedRecords(ctx); err != nil {
		return nil, err
	}
	return ended(c.producer.EndTransaction(context.Background(), kgo.TryAbort))
}

type endError struct{ error }

func (e endError) Unwrap() error { return e.error }

func ended(err error) (any, error) {
	if err != nil {
		return nil, endError{err}
	}
	return lines.Empty, nil
}

func (c *client) assign(r *lines.Request) (any, error) {
	if c.consumer == nil {
		consumer, err := kgo.NewClient(c.consumerOptions...)
		if err != nil {
			return nil, err
		}
		c.consumer, c.direct = consumer, true
	}
	old := map[string][]int32{}
	for each := range c.assigned {
		old[each.Topic] = append(old[each.Topic], each.Partition)
		c.tracker.Forget(each)
	}
	c.consumer.RemoveConsumePartitions(old)
	clear(c.assigned)
	return c.seekDirect(r)
}

// seek of assigned partitions adds them again: SetOffsets skips partitions that were not fetched yet. In a group,
// there is only SetOffsets.
func (c *client) seek(r *lines.Request) (any, error) {
	if c.direct {
		return c.seekDirect(r)
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, each := range r.Partitions {
		if each.Offset < 0 {
			return nil, errors.New("in a group, franz-go seeks to numbers only")
		}
		if offsets[each.Topic] == nil {
			offsets[each.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[each.Topic][each.Partition] = kgo.EpochOffset{Epoch: -1, Offset: int64(each.Offset)}
		c.tracker.Set(each)
	}
	c.consumer.SetOffsets(offsets)
	return lines.Empty, nil
}

func (c *client) seekDirect(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	replaced, added := map[string][]int32{}, map[string]map[int32]kgo.Offset{}
	for _, each := range r.Partitions {
		at := each.Offset
		if at == lines.Committed {
			fetched, err := kadm.NewClient(c.consumer).FetchOffsetsForTopics(ctx, c.consumerOpened.Group, each.Topic)
			if err != nil {
				return nil, err
			}
			committed, found := fetched.Lookup(each.Topic, each.Partition)
			switch {
			case found && committed.Err != nil:
				return nil, committed.Err
			case found && committed.At >= 0:
				at = lines.Offset(committed.At)
			case c.consumerOpened.AutoOffsetReset == "earliest":
				at = lines.Earliest
			case c.consumerOpened.AutoOffsetReset == "latest":
				at = lines.Latest
			default:
				return nil, fmt.Errorf("%s-%d has no committed offset", each.Topic, each.Partition)
			}
		}
		if added[each.Topic] == nil {
			added[each.Topic] = map[int32]kgo.Offset{}
		}
		replaced[each.Topic] = append(replaced[each.Topic], each.Partition)
		added[each.Topic][each.Partition] = kgo.NewOffset().At(int64(at))
		c.assigned[each.Of()] = true
		c.tracker.Set(lines.Position{Topic: each.Topic, Partition: each.Partition, Offset: at})
	}
	c.consumer.RemoveConsumePartitions(replaced)
	c.consumer.AddConsumePartitions(added)
	return lines.Empty, nil
}

func (c *client) subscribe(r *lines.Request) (any, error) {
	options := append(c.grouped(c.consumerOpened), c.consumerOptions...)
	consumer, err := kgo.NewClient(append(options, kgo.ConsumeTopics(r.Topics...))...)
	if err != nil {
		return nil, err
	}
	c.consumer, c.direct = consumer, false
	return lines.Empty, nil
}

func (c *client) poll(r *lines.Request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.Wait())
	defer cancel()
	var fetches kgo.Fetches
	c.AllowEvents(func() {
		c.consumer.AllowRebalance()
		fetches = c.consumer.PollRecords(ctx, r.RecordsMax)
	})
	polled, taken := lines.Polled{Records: []lines.Record{}}, 0
	var first error
	fetches.EachError(func(_ string, _ int32, err error) {
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) { // nothing was there within the time
			polled.Errors = append(polled.Errors, describe(err))
			first = cmp.Or(first, err)
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		taken++
		c.tracker.Move(lines.Position{Topic: record.Topic, Partition: record.Partition,
			Offset: lines.Offset(record.Offset + 1)})
		if !record.Attrs.IsControl() {
			polled.Records = append(polled.Records, lines.Record{Topic: record.Topic, Partition: record.Partition,
				Offset: record.Offset, Timestamp: record.Timestamp.UnixMilli(), Key: record.Key, Value: record.Value})
		}
	})
	if first != nil && taken == 0 {
		return nil, first
	}
	polled.Positions = c.tracker.Known()
	return polled, nil
}

func (c *client) ask(*lines.Request) (any, error) {
	return lines.Positions{Positions: c.tracker.Known()}, nil
}

func (c *client) commitOffsets(r *lines.Request) (any, error) {
	ctx, cancel := r.Context()
	defer cancel()
	if c.direct {
		offsets := kadm.Offsets{}
		for _, each := range r.Offsets {
			offsets.AddOffset(each.Topic, each.Partition, int64(each.Offset), -1)
		}
		return lines.Empty, kadm.NewClient(c.consumer).CommitAllOffsets(ctx, c.consumerOpened.Group, offsets)
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, each := range r.Offsets {
		if offsets[each.Topic] == nil {
			offsets[each.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[each.Topic][each.Partition] = kgo.EpochOffset{Epoch: -1, Offset: int64(each.Offset)}
	}
	var failed error
	c.consumer.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err == nil {
				for _, topic := range response.Topics {
					for _, partition := range topic.Partitions {
						failed = errors.Join(failed, kerr.ErrorForCode(partition.ErrorCode))
					}
				}
			}
		})
	return lines.Empty, failed
}

func (c *client) close(r *lines.Request) (any, error) {
	if r.Role == "producer" {
		if c.producer != nil {
			c.producer.Close()
			c.producer = nil
		}
		return lines.Empty, nil
	}
	if c.consumer != nil {
		if !r.Leave { // as documented: leaving with a cancelled context leaves out the request
			cancelled, cancel := context.WithCancel(context.Background())
			cancel()
			_ = c.consumer.LeaveGroupContext(cancelled)
		}
		c.AllowEvents(c.consumer.CloseAllowingRebalance)
		c.consumer = nil
	}
	return lines.Empty, nil
}

var named = map[string]error{
	"ErrRecordTimeout": kgo.ErrRecordTimeout,
	"ErrRecordRetries": kgo.ErrRecordRetries,
	"ErrMaxBuffered":   kgo.ErrMaxBuffered,
	"ErrAborting":      kgo.ErrAborting,
	"ErrClientClosed":  kgo.ErrClientClosed,
	"DeadlineExceeded": context.DeadlineExceeded,
}

func describe(err error) lines.Error {
	described := lines.Error{Code: fmt.Sprintf("%T", err), Text: err.Error()}
	for name, each := range named {
		if errors.Is(err, each) {
			described.Code = name
		}
	}
	kafka, isKafka := errors.AsType[*kerr.Error](err)
	if !isKafka {
		return described
	}
	described.Code = lines.ErrorName(int(kafka.Code))
	_, isEnd := errors.AsType[endError](err)
	switch kafka {
	case kerr.OperationNotAttempted, kerr.TransactionAbortable:
		described.Kind = "abortable"
	case kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.FencedInstanceID:
		described.Kind = "fatal"
	default:
		if kafka.Retriable && !isEnd {
			described.Kind = "retriable"
		}
	}
	return described
}

func main() {
	c := &client{}
	c.Lines = lines.New(lines.Program{
		Library:      "franz-go",
		Version:      lines.Version("github.com/twmb/franz-go"),
		Describe:     describe,
		Capabilities: append([]string{"produce", "consume", "idempotence", "transactions"}, groupCapabilities...),
		Do: map[string]func(*lines.Request) (any, error){
			"open": c.open, "close": c.close, "send": c.send, "init_transactions": c.initTransactions,
			"begin": c.begin, "commit": c.commit, "abort": c.abort, "assign": c.assign, "seek": c.seek,
			"subscribe": c.subscribe, "poll": c.poll, "positions": c.ask, "commit_offsets": c.commitOffsets,
		},
	})
	c.Serve()
}
