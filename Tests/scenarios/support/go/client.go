// Go's own client and cookie jar, with default settings. They make a whole login, and calls with the jar's cookies and with a
// bearer token. Each printed line is `NAME STATUS WORDS`.
//
//	client SITE BEARER
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
)

var site string

// Sends one request and prints its line.
func send(client *http.Client, name, method, path, bearer string, body io.Reader) (map[string]interface{}, string) {
	request, err := http.NewRequest(method, site+path, body)
	if err != nil {
		fmt.Println(name, 0, err)
		return nil, ""
	}
	if strings.HasPrefix(path, "/v1/logins") || path == "/v1/sessions" {
		request.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	answer, err := client.Do(request)
	if err != nil {
		fmt.Println(name, 0, err)
		return nil, ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	fmt.Println(name, answer.StatusCode, strings.Join(strings.Fields(string(text)), " "))
	var members map[string]interface{}
	_ = json.Unmarshal(text, &members)
	return members, string(text)
}

func main() {
	site = os.Args[1]
	bearer := os.Args[2]
	plain := &http.Client{}
	send(plain, "stranger", "GET", "/v1/session", "", nil)
	send(plain, "session", "GET", "/v1/session", bearer, nil)
	send(plain, "relay-get", "GET", "/v1/relay/api/echo", bearer, nil)
	send(plain, "relay-post", "POST", "/v1/relay/api/echo", bearer, strings.NewReader(strings.Repeat("x", 3000)))
	// A reader of unknown length is sent in chunks.
	send(plain, "relay-chunked", "POST", "/v1/relay/api/echo", bearer, io.MultiReader(strings.NewReader(strings.Repeat("x", 3000))))
	request, _ := http.NewRequest("GET", site+"/v1/relay/api/events/2", nil)
	request.Header.Set("Authorization", "Bearer "+bearer)
	if answer, err := plain.Do(request); err == nil {
		lines := bufio.NewScanner(answer.Body)
		seen := []string{}
		for lines.Scan() {
			seen = append(seen, lines.Text())
		}
		fmt.Println("relay-events", answer.StatusCode, strings.Join(seen, "|"))
		answer.Body.Close()
	}

	jar, _ := cookiejar.New(nil)
	app := &http.Client{Jar: jar}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	begin := func(name string) string {
		begun, _ := send(app, name, "POST", "/v1/logins", "", strings.NewReader(`{"provider":"oidc","client":"ios"}`))
		page, _ := begun["authorization_url"].(string)
		answer, err := browser.Get(page + "&sandbox_user=ana")
		if err != nil {
			fmt.Println("browser", 0, err)
			return ""
		}
		answer.Body.Close()
		callback, _ := json.Marshal(map[string]string{"callback_url": answer.Header.Get("Location")})
		return string(callback)
	}
	names := func(name string) {
		where, _ := url.Parse(site)
		held := []string{}
		for _, cookie := range jar.Cookies(where) {
			held = append(held, cookie.Name)
		}
		fmt.Println(name, len(held), strings.Join(held, ","))
	}
	stolen := begin("login")
	send(plain, "not-yours", "POST", "/v1/sessions", "", strings.NewReader(stolen))
	send(app, "burned", "POST", "/v1/sessions", "", strings.NewReader(stolen))
	send(app, "forward", "POST", "/v1/sessions", "", strings.NewReader(begin("login-1")))
	send(app, "jar-session", "GET", "/v1/session", "", nil)
	send(app, "jar-refresh", "POST", "/v1/session/refresh", "", nil)
	send(app, "forward-2", "POST", "/v1/sessions", "", strings.NewReader(begin("login-2")))
	send(app, "jar-session-2", "GET", "/v1/session", "", nil)
	names("held")
	send(app, "log-out", "DELETE", "/v1/session", "", nil)
	names("left")
	send(app, "after", "GET", "/v1/session", "", nil)
}
