package lines

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

// Request is one request, with the fields of all requests.
type Request struct {
	ID        int64  `json:"id"`
	Do        string `json:"do"`
	TimeoutMS int64  `json:"timeout_ms"`

	// open, close
	Role                 string                     `json:"role"`
	Bootstrap            string                     `json:"bootstrap"`
	ClientID             string                     `json:"client_id"`
	Security             map[string]string          `json:"security"`
	Properties           map[string]json.RawMessage `json:"properties"`
	RequestTimeoutMS     int64                      `json:"request_timeout_ms"`
	Acks                 Acks                       `json:"acks"`
	Idempotence          bool                       `json:"idempotence"`
	Retries              *int                       `json:"retries"`
	DeliveryTimeoutMS    int64                      `json:"delivery_timeout_ms"`
	TransactionalID      *string                    `json:"transactional_id"`
	TransactionTimeoutMS int64                      `json:"transaction_timeout_ms"`
	Group                string                     `json:"group"`
	GroupProtocol        string                     `json:"group_protocol"`
	Assignor             *string                    `json:"assignor"`
	IsolationLevel       string                     `json:"isolation_level"`
	AutoOffsetReset      string                     `json:"auto_offset_reset"`
	AutoCommit           bool                       `json:"auto_commit"`
	SessionTimeoutMS     int64                      `json:"session_timeout_ms"`
	Leave                bool                       `json:"leave"`

	// send
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`

	// assign, seek, subscribe, poll, commit_offsets, send_offsets
	Partitions []Position `json:"partitions"`
	Topics     []string   `json:"topics"`
	WaitMS     int64      `json:"wait_ms"`
	RecordsMax int        `json:"records_max"`
	Offsets    []Position `json:"offsets"`
}

// Acks is "all", "1" or "0".
type Acks string

func (a *Acks) UnmarshalJSON(text []byte) error {
	*a = Acks(strings.Trim(string(text), `"`))
	return nil
}

// Offset is an offset, or one of the three below.
type Offset int64

const (
	Earliest  Offset = -2
	Latest    Offset = -1
	Committed Offset = -1000
)

func (o *Offset) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"earliest"`:
		*o = Earliest
	case `"latest"`:
		*o = Latest
	case `"committed"`:
		*o = Committed
	default:
		return json.Unmarshal(text, (*int64)(o))
	}
	return nil
}

type Partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type Position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    Offset `json:"offset"`
}

type Record struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`
}

// Polled is the answer to a poll; Errors are reported beside records.
type Polled struct {
	Records   []Record   `json:"records"`
	Positions []Position `json:"positions,omitempty"`
	Errors    []Error    `json:"errors,omitempty"`
}

// Positions is the answer to the request "positions".
type Positions struct {
	Positions []Position `json:"positions"`
}

// Sent is the answer to a send.
type Sent struct {
	Offset *int64 `json:"offset"`
}

// SentAt returns the answer to a send; a negative offset means that the library does not know it.
func SentAt(offset int64) Sent {
	if offset < 0 {
		return Sent{}
	}
	return Sent{&offset}
}

type Error struct {
	Code string `json:"code"`
	Text string `json:"text"`
	Sent string `json:"sent,omitempty"`
	Kind string `json:"kind,omitempty"`
}

// Security is the field "security" of the request "open". TLS is nil for plaintext, Mechanism empty without SASL.
type Security struct {
	TLS                           *tls.Config
	Mechanism, Username, Password string
}

// SecuritySettings returns an error for a property that is not known.
func (r *Request) SecuritySettings() (Security, error) {
	security := Security{}
	protocol, roots := "PLAINTEXT", ""
	for name, value := range r.Security {
		switch name {
		case "security.protocol":
			protocol = value
		case "sasl.mechanism":
			security.Mechanism = value
		case "sasl.username":
			security.Username = value
		case "sasl.password":
			security.Password = value
		case "ssl.ca.location":
			roots = value
		default:
			return security, fmt.Errorf("the security property %s is not supported", name)
		}
	}
	if !strings.HasPrefix(protocol, "SASL_") {
		security.Mechanism = ""
	}
	if strings.HasSuffix(protocol, "SSL") {
		security.TLS = &tls.Config{}
		if roots != "" {
			certificates, err := os.ReadFile(roots)
			if err != nil {
				return security, err
			}
			security.TLS.RootCAs = x509.NewCertPool()
			security.TLS.RootCAs.AppendCertsFromPEM(certificates)
		}
	}
	return security, nil
}

// Decode converts a user's setting to a value of type t. Numbers, booleans and durations ("500ms") may be given as text.
func Decode(setting json.RawMessage, t reflect.Type) (reflect.Value, error) {
	value := reflect.New(t)
	text := ""
	if t.Kind() != reflect.String && json.Unmarshal(setting, &text) == nil {
		if t == reflect.TypeFor[time.Duration]() {
			duration, err := time.ParseDuration(text)
			return reflect.ValueOf(duration), err
		}
		setting = json.RawMessage(text)
	}
	err := json.Unmarshal(setting, value.Interface())
	return value.Elem(), err
}

// SetFields sets fields of a configuration (a pointer to a struct) by their names, such as "Producer.MaxMessageBytes".
func SetFields(config any, properties map[string]json.RawMessage) error {
	for name, setting := range properties {
		field := reflect.ValueOf(config).Elem()
		for _, part := range strings.Split(name, ".") {
			if field.Kind() == reflect.Struct {
				field = field.FieldByName(part)
			} else {
				field = reflect.Value{}
			}
			if !field.IsValid() || !field.CanSet() {
				return fmt.Errorf("there is no setting %s", name)
			}
		}
		value, err := Decode(setting, field.Type())
		if err != nil {
			return fmt.Errorf("the setting %s: %w", name, err)
		}
		field.Set(value)
	}
	return nil
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

func (r *Request) RequestTimeout() time.Duration     { return milliseconds(r.RequestTimeoutMS) }
func (r *Request) DeliveryTimeout() time.Duration    { return milliseconds(r.DeliveryTimeoutMS) }
func (r *Request) TransactionTimeout() time.Duration { return milliseconds(r.TransactionTimeoutMS) }
func (r *Request) SessionTimeout() time.Duration     { return milliseconds(r.SessionTimeoutMS) }
func (r *Request) Wait() time.Duration               { return milliseconds(r.WaitMS) }
func (r *Request) Timeout() time.Duration            { return milliseconds(r.TimeoutMS) }
