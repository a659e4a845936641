// Package discover stands in for the library with which a Consul agent asks cloud providers for the addresses to join.
// Test agents join by address, and the real one brings the SDKs of a dozen clouds into the build. What the agent calls is here;
// none of it finds anything.
package discover

import (
	"errors"
	"log"
)

var errAbsent = errors.New("this agent is built without look-ups at cloud providers; join by address")

// Provider is one cloud.
type Provider interface {
	Addrs(args map[string]string, l *log.Logger) ([]string, error)
	Help() string
}

// Providers has none.
var Providers = map[string]Provider{}

// Config is a parsed `provider=… key=…` text.
type Config map[string]string

// Parse refuses every text.
func Parse(string) (Config, error) { return nil, errAbsent }

// Option changes what New makes.
type Option func(*Discover) error

// WithUserAgent changes nothing.
func WithUserAgent(string) Option { return unchanged }

// WithProviders changes nothing.
func WithProviders(map[string]Provider) Option { return unchanged }

func unchanged(*Discover) error { return nil }

// Discover finds no addresses.
type Discover struct{}

// New makes one.
func New(...Option) (*Discover, error) { return &Discover{}, nil }

// Addrs fails.
func (*Discover) Addrs(string, *log.Logger) ([]string, error) { return nil, errAbsent }

// Names is empty.
func (*Discover) Names() []string { return nil }

// Help is empty.
func (*Discover) Help() string { return "" }
