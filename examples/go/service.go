// A service that asks the broker which user a session token belongs to.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

type Session struct {
	Active           bool
	Sub, Code, Nonce string
}

var broker = http.Client{Timeout: 5 * time.Second}

func whoIs(token string, evidence url.Values) (session Session, err error) {
	evidence.Set("token", token)
	request, err := http.NewRequest("POST", os.Getenv("COATCHECK_URL")+"/v1/introspect", strings.NewReader(evidence.Encode()))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("X-Coatcheck-Backend", os.Getenv("CREDENTIAL"))
	answer, err := broker.Do(request)
	if err != nil { // answer 503, not 401
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != 200 {
		return session, fmt.Errorf("broker: %s", answer.Status)
	}
	err = json.NewDecoder(answer.Body).Decode(&session)
	session.Nonce = answer.Header.Get("DPoP-Nonce")
	return
}

// The evidence that the app sent for a bound session: a pass, or a proof with the request's method and URL.
func evidence(request *http.Request) url.Values {
	found := url.Values{}
	if pass := request.Header.Get("Coatcheck-Pass"); pass != "" {
		found.Set("pass", pass)
	}
	if proof := request.Header.Get("DPoP"); proof != "" {
		found.Set("dpop", proof)
		found.Set("htm", request.Method)
		found.Set("htu", os.Getenv("ORIGIN")+request.RequestURI)
	}
	return found
}

func serve(answer http.ResponseWriter, request *http.Request) {
	token := request.Header.Get("Authorization")
	token = strings.TrimPrefix(strings.TrimPrefix(token, "Bearer "), "DPoP ")
	var session Session
	var err error
	if token != "" {
		session, err = whoIs(token, evidence(request))
	}
	if err != nil {
		answer.Header().Set("Retry-After", "5")
		answer.WriteHeader(503)
		return
	}
	if session.Code != "" { // evidence is missing or refused; the session lives
		fault := "invalid_dpop_proof"
		if session.Code == "use_dpop_nonce" {
			fault = session.Code
		}
		answer.Header().Set("Coatcheck-Code", session.Code)
		answer.Header().Set("DPoP-Nonce", session.Nonce)
		answer.Header().Set("WWW-Authenticate", fmt.Sprintf(`DPoP error="%s", algs="ES256"`, fault))
	}
	if !session.Active {
		answer.WriteHeader(401)
		return
	}
	fmt.Fprint(answer, session.Sub)
}

func main() {
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(serve)))
}
