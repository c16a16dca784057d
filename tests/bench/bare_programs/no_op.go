// A client program that acknowledges every record at once and sends none: what the lines alone cost.
package main

import (
	"bufio"
	"encoding/json"
	"os"
)

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for offset := 0; ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var request struct {
			ID int    `json:"id"`
			Do string `json:"do"`
		}
		if json.Unmarshal(line, &request) != nil {
			os.Exit(1)
		}
		ok := map[string]any{}
		switch request.Do {
		case "hello":
			capabilities := []string{"produce", "consume", "idempotence"}
			ok = map[string]any{"protocol": 1, "library": "no-op", "version": "1", "capabilities": capabilities}
		case "send":
			ok["offset"] = offset
			offset++
		}
		if out.Encode(map[string]any{"id": request.ID, "ok": ok}) != nil {
			return
		}
	}
}
