// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"math/rand"
	"sort"
	"time"
)

const (
	// A plugin that does not see the new socket come looks for it every 5 s: that is too late.
	settleDeadline = 4 * time.Second
	// Until the plugin itself knows what else has changed on the machine.
	firstDeadline = 30 * time.Second
	// The plugin has this long to notice that it is registered but not attached, so that what is
	// right for as long stays so.
	holdFor   = 2500 * time.Millisecond
	callsWait = 300 * time.Millisecond // for a call at which it is to die
	wrongMax  = 5
	slowMS    = 1000
)

// Restarts is what came of them.
type Restarts struct {
	Count       int         `json:"count"`
	Settled     int         `json:"settled"`     // were left alone until the lists were right
	Held        int         `json:"held"`        // and watched for a while then
	Interrupted map[int]int `json:"interrupted"` // died at this call
	First       float64     `json:"first_ms"`    // until the lists were right for the first time
	Median      float64     `json:"median_ms"`   // and after that: nothing else had changed
	Most        float64     `json:"most_ms"`
	Slow        []string    `json:"slow"` // took over slowMS
	Wrong       []string    `json:"wrong"`
}

// hold looks whether what is right stays right.
func (l *life) hold(ask request) string {
	for end := time.Now().Add(holdFor); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if wrong := l.wrong(ask.Expect); wrong != "" {
			return "was right, but then " + wrong
		}
	}
	return ""
}

// end waits for the point at which this life ends, and says which it was.
func (l *life) end(random *rand.Rand, out *Restarts) string {
	if l.at < 0 {
		after := time.Duration(random.ExpFloat64() * float64(8*time.Millisecond))
		time.Sleep(after)
		return after.String()
	}
	select {
	case <-l.die:
		out.Interrupted[l.at]++
	case <-time.After(callsWait):
		return fmt.Sprintf("call %d, which did not come", l.at)
	}
	return fmt.Sprintf("call %d", l.at)
}

// restarts starts the registration server `count` times. Each ends at a random time, between two
// calls, or after its lists became right, as they must in the end; the last one stays.
func (r *registry) restarts(ask request) (*Restarts, error) {
	random := rand.New(rand.NewSource(ask.Seed))
	out := &Restarts{Interrupted: map[int]int{}, Wrong: []string{}}
	var took []float64
	before := "rest"
	for ; out.Count < ask.Count && len(out.Wrong) < wrongMax; out.Count++ {
		last := out.Count == ask.Count-1
		settles := last || random.Intn(2) == 0
		at := -1
		if !settles && random.Intn(3) > 0 {
			at = random.Intn(3 * len(ask.Expect)) // connected, options, first list of each
		}
		if r.life != nil {
			if err := r.stop(); err != nil {
				return out, err
			}
			if random.Intn(2) == 0 { // for a while there is no kubelet
				time.Sleep(time.Duration(random.Intn(20)) * time.Millisecond)
			}
		}
		if err := r.start(at); err != nil {
			return out, err
		}
		if !settles {
			before = r.life.end(random, out)
			continue
		}
		begin := time.Now()
		deadline := settleDeadline
		if out.Settled == 0 {
			deadline = firstDeadline
		}
		wrong := r.life.settle(ask.Expect, deadline)
		ms := time.Since(begin).Seconds() * 1000
		if out.Settled == 0 {
			out.First = ms
		} else if took = append(took, ms); ms > slowMS {
			out.Slow = append(out.Slow, fmt.Sprintf("restart %d, the one before died at %s, from %s: %.0f ms",
				out.Count, before, begin.Format("15:04:05.000"), ms))
		}
		out.Settled++
		before = "rest"
		if wrong == "" && (last || random.Intn(40) == 0) {
			out.Held++
			wrong = r.life.hold(ask)
		}
		if wrong != "" {
			out.Wrong = append(out.Wrong, fmt.Sprintf("restart %d: %s", out.Count, wrong))
		}
	}
	if sort.Float64s(took); len(took) > 0 {
		out.Median, out.Most = took[len(took)/2], took[len(took)-1]
	}
	return out, nil
}
