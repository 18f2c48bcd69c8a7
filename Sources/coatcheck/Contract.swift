// Made by scripts/embed-contract from openapi.yaml; not for editing.
// swift-format-ignore-file

/// The contract as served at `/openapi.yaml`.
enum Contract {
    static let text = ##"""
openapi: 3.1.0
info:
  title: Coatcheck
  version: '1'
  summary: An HTTP session broker for mobile apps.
  description: |
    An app signs its user in with an OAuth provider and hands the resulting code to Coatcheck. Coatcheck exchanges the
    code, keeps the provider's tokens on the server, and gives the app one opaque session cookie.

    This file is the normative contract. The following rules hold everywhere and are not repeated below.

    - Bodies are JSON in UTF-8, names are in `snake_case`, times are RFC 3339 in UTC with whole seconds. `Accept` is not
      negotiated, because everything has one representation. So there is no 406.
    - Request bodies are parsed strictly and have at most 64 KiB. One `invalid_request` names all faults together in
      `errors`: unknown and missing members, members that occur twice, and members of the wrong type.
    - Every error is an RFC 9457 problem document with a stable `code`; `docs/problems.md#<code>` has the advice for each.
      The description of each answer lists its codes. (`/v1/introspect` and `/v1/token` use OAuth's error format instead.)
    - An unlisted path is 404 `not_found`. So is a path with an empty segment, a trailing slash or, outside the relay, a
      percent sign. An unlisted method is 405 `method_not_allowed` with `Allow`.
    - HEAD is answered like GET, without the body, and changes nothing. OPTIONS is answered for the listed origins of
      `session.allowed_origins`.
    - A request whose framing is ambiguous (RFC 9112) is 400 `invalid_request` and the connection closes.
    - 503 always has `Retry-After` and never clears a cookie.
    - Every answer has `X-Request-Id`, the security headers listed under `components/headers`, and
      `Cache-Control: no-store`. Only the public files (this one and the app association files) may be cached.
    - The session travels as the cookie `__Host-coatcheck`, or for clients with `transport: bearer` as
      `Authorization: Bearer`. A request with both must name the same session with both, else 400. Two values for one
      cookie name are 400.
    - With `server.public_url` on plain http (development) the cookies are called `coatcheck`, `coatcheck-login` and
      `coatcheck-pass` and lack `Secure`.
    - **Bound sessions.** A client with `binding` gives its sessions to a key that never leaves the device. Such a session
      needs evidence in addition to its token on every operation that takes a session, except `DELETE /v1/session`. The
      evidence is a proof, or a pass if the client's `evidence` is `pass`. If both are there, the proof decides. For
      unbound sessions proofs are ignored.
    - A proof is the header `DPoP` (RFC 9449 section 4.2; `ES256`). `htu` is the address of `public_url` and the path,
      `nonce` is the broker's, and `ath` is of the session token (not judged at the three sign-in operations). `iat` is
      never judged.
    - A pass is the cookie `__Host-coatcheck-pass`, or `Coatcheck-Pass` for bearer clients. `Authorization: DPoP` is read
      as `Bearer`; neither scheme is evidence.
    - Missing evidence is 401 `proof_required`, `use_dpop_nonce` or `proof_invalid` with `DPoP-Nonce` and
      `Coatcheck-Code`. This 401 clears no cookie, and proves nothing about the session.
    - **Presence.** A bound session may have a second key, which the device's system uses only with its user
      (`PUT /v1/session/presence-key`). A call that needs presence (`require: {presence: true}`) also needs that key's
      proof over this very request.
    - That proof is the header `Coatcheck-Presence`, exactly one, in the form of `DPoP` (`typ` `dpop+jwt`, `ES256`, `htm`,
      `htu`, `jti`, `iat`, `nonce`, and always `ath`). Both proofs may have the same nonce. The proofs do not cover the
      body and the query of a request.
    - A proof of presence takes any living `DPoP-Nonce`, from any replica and for every method. It is judged again when it
      is taken. It is taken once over all replicas, 30 times a minute for each session.
    - A missing or bad proof of presence is 401 `presence_required` or `presence_invalid`, with `DPoP-Nonce` and
      `Coatcheck-Code`. The session and its cookie stay, and no other sign-in is needed.
    - **Cross-origin rule.** It applies to unsafe methods, and to every method of the relay and the event stream. The
      request has to carry the broker's cookie or no credential. `Sec-Fetch-Site`, if present, must be `same-origin` or
      `none`; else `Origin`, if present, must be the broker's own. An `Origin` listed in `session.allowed_origins` always
      passes. Otherwise 403 `cross_origin`.
  license: {name: Apache-2.0, identifier: Apache-2.0}
servers:
  - url: https://auth.example.com
    description: The public listener. The broker serves this file with its own `server.public_url` here.
tags:
  - name: login
    description: From a click on "sign in" to a session.
  - name: session
    description: The session, its refresh and its end.
  - name: events
    description: The event stream.
  - name: relay
    description: Upstream APIs, called with the session's access token.
  - name: backend
    description: |
      For services of the operator's that ask about a session. They use the public listener, or a separate listener with
      `server.backend_listen`. That listener has nothing else, and the public one then answers 404. There alone, a TCP
      peer listed in `backends.NAME.peers` needs no credential, and the listener's own address is a `Host`, too.
  - name: provider
    description: For providers.
  - name: public
    description: Public documents.
  - name: management
    description: |
      The management listener, loopback by default. The public listener does not reach it. `Host` has to be an address, a
      loopback name or one of `management.hosts`.

paths:
  /v1/logins:
    post:
      tags: [login]
      operationId: startLogin
      summary: Start a login.
      description: |
        Makes state, PKCE verifier and nonce, and answers with the URL to open in the system browser. The answer's login
        token is the cookie `__Host-coatcheck-login`, or `login_token` in the body for bearer clients. Only the starter
        has this secret, so only the starter can finish the login. A request with the login token of a pending login joins
        it, so that several logins of one device share a starter.

        With a proof the login is bound to its key, and only that key can finish it. A client with
        `binding: {mode: enforce}` has to bring one.

        With `step_up` the user has to sign in as it demands. If the request also presents a session, the login is of that
        session. (A bound session needs a proof; a pass is not enough.) The login's forward needs the login token and the
        session, and answers 200 with the same session. `provider` and `client` may be left out then, or are the
        session's; the login asks for the session's scope.
      security: [{}, {loginCookie: []}, {sessionCookie: []}, {sessionBearer: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/StartLogin'}
            examples:
              usual: {value: {provider: cloudentity, client: ios}}
              appHoldsTheVerifier:
                value:
                  provider: cloudentity
                  client: ios
                  redirect_uri: 'com.example.app:/oauth2redirect'
                  scope: openid email
                  code_challenge: E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM
                  code_challenge_method: S256
              clever: {value: {provider: clever, client: web, parameters: {district_id: 650000000000000000000d01}}}
              zephr: {value: {provider: zephr, client: ios, social_provider: google}}
              stepUp: {summary: 'For the session that the request presents', value: {step_up: {acr_values: mfa, max_age: 300}}}
      responses:
        '201':
          description: The login has begun.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            Set-Cookie: {$ref: '#/components/headers/Set-Login-Cookie'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/StartedLogin'}
              example:
                login_id: lgn_Zk3mTqD0Qm2Wk5m3C3cV0w
                authorization_url: https://example.eu.authz.cloudentity.io/example/demo/oauth2/authorize?response_type=code&client_id=mobile-app&state=3q2-7w
                state: gGDx3X1Zk2Zb8lPpRkXbOqkq9mXG1iSB6zX6QZq3m5M
                expires_at: '2026-11-20T21:10:00Z'
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/ProofOrSessionWanted'}
        '403':
          description: |
            `client_not_allowed`: the client is set to `login: app`, the provider lacks the ability that `step_up` asks
            for, or a child session asks. `step_up_failed`: the demands of `step_up` and those configured for every
            sign-in have no class in common. `cross_origin`: see the cross-origin rule.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '404': {$ref: '#/components/responses/ProviderNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/ProviderError'}
        '503': {$ref: '#/components/responses/Unavailable'}

  /v1/sessions:
    post:
      tags: [login]
      operationId: forwardCode
      summary: Forward a code and get a session.
      description: |
        One of:

        - `{callback_url}`: the whole URL with which the provider returned to the app (flow A). The login token comes as
          the cookie or as `login_token`.
        - `{handoff}`: the one-time value that the hosted callback passed to the app (flow C).
        - `{provider, client, code | callback_url, …}`: a login that the app started itself (flow B), for clients with
          `login: app` or `both`.
        - `{provider, client, code, login_token, nonce}`: a code from a native SDK, for clients with `native_code: true`.
        - `{provider, client, id_token, nonce}`: an id_token of a native SDK (Google's Credential Manager, Sign in with
          Apple, Facebook's Limited Login), for clients with `native_code: true`. It is verified like one from the token
          endpoint. Its `aud` is the client id or one of the client's `trusted_audiences`. The nonce is required, raw or
          as SHA-256.
        - `{provider, client, tokens}`: tokens the app already holds, for clients with `import_tokens: true`.

        The session of an id_token has no tokens of the provider's: `tokens` is `{expires_at: null, refreshable: false}`
        and `scope` is empty. A refresh is `not_refreshable`, the relay `upstream_not_allowed`, `POST /v1/session/token`
        `client_not_allowed`, and `POST /v1/token` `invalid_target`. With `login_token` the app can repeat the request.

        One code makes at most one call at the provider, and one id_token one session. The same starter (same
        `login_token`, else same `code_verifier`) gets the same session with the same cookie for 10 minutes; anyone else
        gets `code_already_used`. A session presented with the request ends with the reason `replaced`.

        A login of a session (`step_up`) needs that session, too. This is judged before the code is spent: without the
        session `session_required`, with another `login_not_yours`. The answer is 200 with the same session. A failure
        leaves the session unchanged.
      security: [{}, {loginCookie: []}, {sessionCookie: []}, {sessionBearer: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/ForwardCode'}
            examples:
              callback:
                summary: Flow A
                value: {callback_url: 'com.example.app:/oauth2redirect?code=c0de-1&state=gGDx3X1Zk2Zb8lPpRkXbOqkq9mXG1iSB6zX6QZq3m5M', device: Ana's phone}
              appStarted:
                summary: Flow B
                value:
                  provider: cloudentity
                  client: ios
                  callback_url: 'com.example.app:/oauth2redirect?code=c0de-1&state=my-own-state'
                  state: my-own-state
                  code_verifier: dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk
                  login_token: 3q2-7wHc0u0Hn5C0jC3Jq7E2q1k5kQm8c2q9y0m4zQE
              handoff: {summary: Flow C, value: {handoff: Hk2q3N9mQ0m7bq3yqk0W8bJ1k5kQm8c2q9y0m4zQEaA}}
              native:
                summary: Google's serverAuthCode
                value: {provider: google, client: ios, code: 4/0AfakeServerAuthCode, login_token: 3q2-7wHc0u0Hn5C0jC3Jq7E2q1k5kQm8c2q9y0m4zQE, nonce: n-0S6_WzA2Mj}
              idToken:
                summary: The id_token of a native SDK
                value: {provider: google, client: ios, id_token: eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiIxMDc2OSJ9.c2lnbmF0dXJl, nonce: n-0S6_WzA2Mj, login_token: 3q2-7wHc0u0Hn5C0jC3Jq7E2q1k5kQm8c2q9y0m4zQE, device: Ana's phone}
              scoped:
                summary: Flow B, with the scope that the app requested
                value:
                  provider: cloudentity
                  client: ios
                  code: c0de-1
                  code_verifier: dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk
                  scope: openid email
              cleverToken:
                summary: An access token of Clever's
                value: {provider: clever, client: ios, tokens: {access_token: il-EXAMPLE-0001}, login_token: 3q2-7wHc0u0Hn5C0jC3Jq7E2q1k5kQm8c2q9y0m4zQE}
              cloverLegacy:
                summary: A token of Clover's from before its tokens expired
                value: {provider: clover, client: ios, tokens: {access_token: v1-1, merchant_id: MFAKE00000001}}
              imported:
                summary: Clover's PartialOAuth
                value: {provider: clover, client: ios, tokens: {access_token: at-1, refresh_token: rt-1, merchant_id: MFAKE00000001}}
      responses:
        '200':
          description: |
            The presented session, stepped up: the same handle and token. A cookie is set again for its `Max-Age` alone.
            For 10 minutes the same starter gets the session again, in its state at that time.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            Set-Cookie: {$ref: '#/components/headers/Set-Session-Cookie'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/ForwardOutcome'}
        '201':
          description: The session. It is stored durably.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            Set-Cookie: {$ref: '#/components/headers/Set-Session-Cookie'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/ForwardOutcome'}
              examples: {clover: {$ref: '#/components/examples/Session'}}
        '202':
          description: A Zephr partial registration. The app collects the fields and posts them to `/v1/registrations`.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/ForwardOutcome'}
              example:
                outcome: registration_required
                provider: zephr
                state_key: e42ac0f3
                identifier: ana@example.org
                expires_at: '2026-11-20T21:15:00Z'
                fields: [{name: first-name, type: string, required: true}]
        '400':
          description: |
            `invalid_request`; `invalid_callback` (not a callback of this login: wrong target, a parameter twice, no
            code); `state_mismatch` (no such login); `issuer_mismatch` (RFC 9207); `code_rejected` (the provider refused
            the code, or the id_token or the imported token is not for this client); `verifier_mismatch` (PKCE).
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
              example:
                type: 'urn:coatcheck:problem:code_rejected'
                title: Code rejected
                status: 400
                code: code_rejected
                detail: The provider did not accept the code.
                request_id: req_7bq3yqk0W8b
        '401': {$ref: '#/components/responses/ProofOrSessionWanted'}
        '403':
          description: |
            `login_not_yours` (another starter's login, which is burned now); `access_denied` (the user refused);
            `client_not_allowed` (the client did not opt in to this flow); `email_domain_denied`; `cross_origin`;
            `step_up_failed` (the sign-in does not meet `step_up`, with `required` and `got`).
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '404': {$ref: '#/components/responses/ProviderNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '409':
          description: |
            `code_already_used` (by another starter); `login_required` (a callback without a state, or a code whose fate
            is unknown; the problem carries a fresh `login` if one could be started); `interaction_required` (the provider
            has to ask the user, and the login has `prompt=none`); `too_many_sessions`; `subject_mismatch` (the user is
            not the user of the session that is stepped up).
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Set-Cookie: {$ref: '#/components/headers/Set-Login-Cookie'}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
              example:
                type: 'urn:coatcheck:problem:login_required'
                title: Login required
                status: 409
                code: login_required
                detail: This sign-in was not started here. Open the authorization URL to start one.
                request_id: req_7bq3yqk0W8b
                login:
                  login_id: lgn_Zk3mTqD0Qm2Wk5m3C3cV0w
                  authorization_url: https://clever.com/oauth/authorize?response_type=code&client_id=web-0001&state=3q2-7w
                  state: gGDx3X1Zk2Zb8lPpRkXbOqkq9mXG1iSB6zX6QZq3m5M
                  expires_at: '2026-11-20T21:10:00Z'
        '410':
          description: |
            `login_expired` (the login is older than 10 minutes); `handoff_expired` (older than 60 seconds, or used);
            `state_key_expired`.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/ProviderError'}
        '503': {$ref: '#/components/responses/Unavailable'}
    get:
      tags: [session]
      operationId: listSessions
      summary: The user's sessions, on all devices.
      description: |
        The sessions of this session's subject at this provider, each with its children behind it. Does not slide the idle
        time.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      parameters:
        - {$ref: '#/components/parameters/Cursor'}
      responses:
        '200':
          description: A page of sessions, newest first; those of a family count as one.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/SessionList'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403': {$ref: '#/components/responses/NotForChildren'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}
    delete:
      tags: [session]
      operationId: endOtherSessions
      summary: End the user's other sessions.
      description: Ends every session of this subject except this one and its children, with the reason `logged_out_elsewhere`.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      parameters:
        - name: except
          in: query
          required: true
          description: Always `current`. The parameter is there so that a bare DELETE cannot end this session by mistake.
          schema: {type: string, enum: [current]}
      responses:
        '204': {$ref: '#/components/responses/Done'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403': {$ref: '#/components/responses/NotForChildren'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/sessions/{handle}:
    delete:
      tags: [session]
      operationId: endSessionByHandle
      summary: End one of the user's sessions, or a child of one.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      parameters:
        - {$ref: '#/components/parameters/Handle'}
      responses:
        '204': {$ref: '#/components/responses/Done'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403': {$ref: '#/components/responses/NotForChildren'}
        '404': {$ref: '#/components/responses/NotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/registrations:
    post:
      tags: [login]
      operationId: finishRegistration
      summary: Finish a Zephr partial registration.
      description: |
        Sends the missing attributes to Zephr with the `state_key` and makes a session of the answer. A state key lives 15
        minutes and is used once; after `registration_rejected` the app may correct the attributes once. The same starter
        with the same attributes gets the same session for 10 minutes.
      security: [{}, {loginCookie: []}, {sessionCookie: []}, {sessionBearer: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/FinishRegistration'}
            example: {provider: zephr, client: ios, state_key: e42ac0f3, attributes: {first-name: Ana, birth-year: 1990, newsletter: true}}
      responses:
        '201': {$ref: '#/components/responses/SessionMade'}
        '400':
          description: '`invalid_request`; `registration_rejected` (Zephr did not take the attributes).'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '401': {$ref: '#/components/responses/ProofWanted'}
        '403':
          description: '`login_not_yours`, `client_not_allowed`, `email_domain_denied`, `cross_origin`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '404': {$ref: '#/components/responses/ProviderNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '409':
          description: |
            `user_already_exists`; `code_already_used` (another starter completed it); `login_required` (it is unknown
            whether Zephr completed it); `too_many_sessions`.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '410':
          description: '`state_key_expired`: unknown, used, or older than 15 minutes.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/ProviderError'}
        '503': {$ref: '#/components/responses/Unavailable'}

  /v1/session:
    get:
      tags: [session]
      operationId: getSession
      summary: This session.
      description: Does not slide the idle time.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        '200': {$ref: '#/components/responses/Session'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403': {$ref: '#/components/responses/NotForChildren'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}
    delete:
      tags: [session]
      operationId: logOut
      summary: Log out.
      description: |
        The session ends here at once, and its tokens are revoked in the background. If the provider has `end_session`,
        the provider's own session is ended in the background, too. 204 with or without a session.

        With `logout_url=true` the answer is 200 with the provider's log-out page, for the app to open in the user's
        browser, if the provider has `end_session`. The background call to it is then not made. The page is null without a
        session, and for one that had ended. It is also null if the provider has no page, or its address did not arrive in
        time.
      security: [{}, {sessionCookie: []}, {sessionBearer: []}]
      parameters:
        - name: logout_url
          in: query
          description: Whether the provider's log-out page is wanted.
          schema: {type: string, enum: ['true', 'false'], default: 'false'}
          example: 'true'
      responses:
        '200':
          description: The session is gone. The cookie is cleared.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            Set-Cookie: {$ref: '#/components/headers/Clear-Session-Cookie'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/LogOutPage'}
        '204': {$ref: '#/components/responses/LoggedOut'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '403': {$ref: '#/components/responses/CrossOrigin'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/session/token:
    post:
      tags: [session]
      operationId: handOutToken
      summary: The provider's access token, for an SDK on the device.
      description: |
        Only for clients with `hand_out_access_token: true`. The token is refreshed if needed; the refresh token is never
        returned. The call counts as use of the session. A Zephr session has no access token. A bound session needs a
        proof, because the token outlives a pass.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        '200':
          description: The access token as it is now.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/HandedOutToken'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403':
          description: '`client_not_allowed`: the client did not opt in, or the session is a child; `cross_origin`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/ProviderError'}
        '503': {$ref: '#/components/responses/Unavailable'}

  /v1/session/pass:
    post:
      tags: [session]
      operationId: grantPass
      summary: A pass for a bound session, in exchange for a proof.
      description: |
        Good for some minutes (`binding: {pass}`), on every replica. Clients with cookies get it as the cookie
        `__Host-coatcheck-pass`, bearer clients as `pass`, which they send as `Coatcheck-Pass`. Only a proof renews it; an
        expired pass counts as no pass.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        '200':
          description: The pass. A device with a wrong clock uses `expires_in`.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            Set-Cookie: {$ref: '#/components/headers/Set-Pass-Cookie'}
            DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/Pass'}
              example: {expires_at: '2026-11-20T21:10:00Z', expires_in: 600}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403':
          description: '`client_not_allowed`: the session is not bound, or its client''s evidence is a proof; `cross_origin`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/session/presence-key:
    put:
      tags: [session]
      operationId: registerPresenceKey
      summary: The key that the device uses only with its user.
      description: |
        For a bound session that is not a child. The request needs a proof (a pass is not enough) and, in
        `Coatcheck-Presence`, a second proof by the new key. That proof covers the same method, address and session token
        (`ath`), with a nonce of the broker's, which may be the same one. The request has no body.

        The call has to come within ten minutes of `authenticated_at`. Otherwise it is 401 `step_up_required` with
        `step_up: {max_age: 600}`, or 403 `step_up_failed` if the provider is unable to step up in this way.

        A session has one presence key in its life. The same key again is 200 at any time, so a lost answer costs nothing.
        Another key is 401 `presence_invalid` with the reason `key`, and so is the session's own key. After the loss of
        the key the user has to sign in again.

        The answer is the session with its new `version`. Keep it, because another replica may answer with the former
        state for a second. Event streams send `session.presence_key_changed`.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        '200':
          description: The session with its presence key, which is new or was registered before.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/Session'}
              examples: {session: {$ref: '#/components/examples/Session'}}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/PresenceKeyUnauthorized'}
        '403':
          description: '`client_not_allowed`: the session is not bound, or is a child; `step_up_failed`: its provider does not report the time of the sign-in; `cross_origin`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/session/children:
    post:
      tags: [session]
      operationId: makeChild
      summary: A session for a widget, a watch or an extension, behind this one.
      description: |
        For clients with `children`. A child has no tokens of the provider's: the relay and the exchange use its parent's,
        so one refresh serves all of them. Its kind lists its rights (`upstreams`, `backends`). A child ends with its
        parent (`parent_ended`), may end alone, and never outlives it.

        `kind` and `name` are the child's place, and a session has 16 places. A new child in a place ends the former one
        (`replaced`). So a caller whose answer was lost can repeat the call.

        The token always comes in the body and goes as `Authorization: Bearer`, for every transport of the client. A bound
        session needs a proof, not a pass, and `jkt` (else 400 with the pointer `/jkt`). The child belongs to that key,
        which it proves at its first use. A wrong `jkt` makes a child that opens nothing.

        A child gets 403 `client_not_allowed` here and from `/v1/session/token`, `/v1/session/refresh` and `/v1/sessions`.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/MakeChild'}
            example: {kind: widget, name: home-screen, device: Ana's home screen}
      responses:
        '201':
          description: The child. It is stored durably.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/NewSession'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403':
          description: '`client_not_allowed`: the client has no children of this kind, or the session is a child itself; `cross_origin`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '409':
          description: '`too_many_sessions`: all 16 places are taken.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/session/handovers:
    post:
      tags: [session]
      operationId: beginHandover
      summary: A ticket for a web view of the app's own.
      description: |
        For clients with `children: {web}`, and a page at one of its `origins`. The app makes a secret (43 to 128
        base64url characters) and sends `challenge`, its base64url SHA-256. It puts the secret as the cookie
        `__Host-coatcheck-handover` (`Secure; HttpOnly; Path=/; SameSite=Strict; Max-Age=60`) into the web view's store
        for the page's origin. When the cookie is there, it loads `url`. The address alone is worthless, so system
        browsers and frames are not served.

        For an origin of the broker's own `url` is `/handover/{ticket}` here. For another it is the page with
        `?handover={ticket}`, and the page's backend redeems the ticket (`POST /v1/handovers/redeem`). A ticket lasts 60
        seconds, and a session has eight in that time. A bound session needs a proof, not a pass.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/BeginHandover'}
            example: {origin: 'https://auth.example.com', path: /checkout, challenge: E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM}
      responses:
        '201':
          description: The ticket's address.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/Handover'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403': {$ref: '#/components/responses/NotForChildren'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/session/refresh:
    post:
      tags: [session]
      operationId: refreshSession
      summary: Refresh the provider's tokens now.
      description: |
        One refresh at a time for each session, on all replicas; callers that come meanwhile get its result. The session's
        own cookie does not change.

        In two cases the answer is the stored session, and the provider is not called. One is a minute after a refresh
        that an app or an upstream has forced. The other is a refresh by another replica that was still unknown here.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        '200': {$ref: '#/components/responses/Session'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403': {$ref: '#/components/responses/NotForChildren'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '409':
          description: '`not_refreshable`: the provider gave no refresh token; the session ends with its access token.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/ProviderError'}
        '503': {$ref: '#/components/responses/Unavailable'}

  /v1/session/events:
    get:
      tags: [session, events]
      operationId: sessionEvents
      summary: This session's events, as server-sent events.
      description: |
        The first event is `session` with the session object. These follow:

        - `tokens_refreshed`, which another replica may also send for an access token of another API
        - `session.presence_key_changed`: read the session again for its `presence`
        - at the end `session_ended` with `{"reason": …}`, after which the stream closes

        The stream ends within a second of the session's end on every replica, also after a lapse. A comment every 25
        seconds keeps it open. Events are not replayed: after a reconnect the first event has the present state.

        A session has eight streams at a time, and a subject and client twice as many as they may have sessions. A child
        has four of its own, and receives its parent's refreshes. One more ends the oldest, without an event. The
        cross-origin rule applies.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        '200':
          description: The stream.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            X-Accel-Buffering: {$ref: '#/components/headers/X-Accel-Buffering'}
          content:
            text/event-stream:
              schema: {type: string}
              example: "event: session\ndata: {\"handle\":\"ses_3f9cT0m7bq3yqk0W8bJ1kQ\"}\n\nevent: session_ended\ndata: {\"reason\":\"logged_out\"}\n\n"
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403': {$ref: '#/components/responses/NotForChildren'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/providers:
    get:
      tags: [public]
      operationId: listProviders
      summary: The data for an app's sign-in buttons.
      security: []
      responses:
        '200':
          description: The configured providers and their clients.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/ProviderList'}
              example:
                items:
                  - name: cloudentity
                    kind: oidc
                    display_name: Cloudentity
                    clients:
                      - name: ios
                        login: both
                        transport: cookie
                        pkce: required
                        redirect_uris: ['com.example.app:/oauth2redirect']
                        scope: [openid, email, profile, offline_access]
                        binding: {mode: 'off', evidence: pass}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /handover/{ticket}:
    parameters:
      - name: ticket
        in: path
        required: true
        schema: {type: string}
    get:
      tags: [session]
      operationId: showHandover
      summary: The page that spends a ticket by its own script, or by a button.
      description: Changes nothing and names no user, for every caller. Refusals are small pages, unless `Accept` asks for problem documents.
      security: [{}]
      responses:
        '200':
          description: The page.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            text/html: {schema: {type: string}}
        '400':
          description: '`invalid_request`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '410':
          description: '`handover_expired`: late, unknown, of another origin, or its session is over.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '408':
          description: '`request_timeout`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '421':
          description: '`wrong_host`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '429':
          description: '`rate_limited`: too many unknown tickets.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '431':
          description: '`headers_too_large`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '500':
          description: '`internal_error`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '503':
          description: '`store_unavailable` or `shutting_down`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
    post:
      tags: [session]
      operationId: spendHandover
      summary: Spend a ticket, from that page alone.
      description: |
        The secret comes from the cookie `__Host-coatcheck-handover`. The call spends the ticket and sends the browser to
        the page with a session of kind `web` in the cookie `__Host-coatcheck-web`, which never replaces the app's. The
        same secret gets the same session for the ticket's 60 seconds. The request must be same-origin, shown by
        `Sec-Fetch-Site` or the broker's own `Origin`; `Origin: null` is refused.
      security: [{}]
      responses:
        '303':
          description: To the page.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            Location: {required: true, schema: {type: string}}
            Set-Cookie: {required: true, schema: {type: string}}
        '400':
          description: '`verifier_mismatch`: the secret is missing, that of another ticket, or shorter than 43 characters; nothing is spent. `invalid_request`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '403':
          description: '`cross_origin`; `client_not_allowed`: the client has no `children: {web}` any more.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '409':
          description: '`other_session`: the browser holds a living session of another user; nothing is spent. `too_many_sessions`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '410':
          description: '`handover_expired`: late, unknown, of another origin, or its session is over.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '408':
          description: '`request_timeout`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '421':
          description: '`wrong_host`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '429':
          description: '`rate_limited`: too many unknown tickets or wrong secrets.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '431':
          description: '`headers_too_large`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '500':
          description: '`internal_error`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '503':
          description: '`store_unavailable` or `shutting_down`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}

  /v1/relay/{upstream}/{path}:
    description: |
      `{path}` is everything after the upstream's name, slashes included. Any method in the upstream's `allow` list may be
      used. (Generated clients percent-encode the slashes of a path parameter, which is 400 here: build this URL by hand.)
      Dot segments in any encoding, `%2f`, `%5c`, `%00`, `\`, `;`, `//` and invalid UTF-8 in `{path}` are 400. The
      cross-origin rule applies to every method.

      *Header fields.* The upstream's answer is passed on, without some fields. Dropped are hop-by-hop and
      `Connection`-named fields, `Set-Cookie`, `WWW-Authenticate`, `Clear-Site-Data`, `Strict-Transport-Security`,
      `Alt-Svc`, `Access-Control-*`, `Server`, `X-Auth-*`, `X-Forwarded-*`, `X-Coatcheck-*`, `Coatcheck-*`. Fields that
      set policy for the broker's origin are dropped, too (`NEL`, `Report-To`, `*-Report-Only`, `Accept-CH`,
      `Permissions-Policy` and their like). `X-Accel-Buffering` passes with `no` or `yes`; other event streams get `no`.
      An offer of `h2c` in `Upgrade` is ignored, any other upgrade is 400.

      *Caches and redirects.* Without a `Cache-Control` the answer is `private, no-store`. With one, `private` and
      `Vary: Cookie, Authorization` are added, unless it has `public` or `s-maxage`. `Coatcheck-Source` names the author
      of the answer. An upstream's redirect is passed on, not followed. A `Location` or `Content-Location` under its base
      URL becomes its path here, an absolute one elsewhere stays, every other is left out.

      *Limits.* Bodies stream both ways. If the app sends one too slowly, it is 408 (`limits.relay_minimum_rate`,
      `limits.relay_upload_deadline`). One user may have a quarter of an upstream's places, one session half of that.
      Beyond it the answer is 429, and when all are taken, 503.

      *Tokens.* An upstream's 401 causes one refresh and, if the body can be replayed, one more try. A 401 that remains is
      passed on and never ends the session. An upstream may have an access token of its own (`upstreams.NAME.token`). If
      the provider refuses it, the answer is 502 `provider_error`; if the session can get none, 403.

      *Sign-in.* The operator's `require` or an upstream's own challenge (RFC 9470) may demand a stronger or more recent
      sign-in: 401 `step_up_required`. If the session already meets the upstream's challenge, it is 403 `step_up_failed`
      with the reason `upstream`.

      *Presence.* A call that needs presence (`require: {presence: true}`) is 401 `presence_required` without
      `Coatcheck-Presence`, or for a session without a presence key. A proof that is not accepted is 401
      `presence_invalid`. An unbound session gets 403 `step_up_failed`.

      The proof of presence is judged last and taken just before the call goes out, for a stream at its beginning. It
      never goes to the upstream. The app may send it again while its nonce lives, if the upstream was surely not reached.
      The same holds if the upstream refused the call with a 401 and the relay answers a problem of its own.

      *The session's end* ends an answer in progress. An event stream without a length ends within a second, as a whole
      answer; any other is cut after five seconds. A call that carries bytes is use of its session, except with a web
      page's cookie.
    parameters:
      - name: upstream
        in: path
        required: true
        schema: {$ref: '#/components/schemas/Name'}
      - name: path
        in: path
        required: true
        schema: {type: string, maxLength: 8192}
    get:
      tags: [relay]
      operationId: relayGet
      summary: Call an upstream with the session's access token.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        default: {$ref: '#/components/responses/UpstreamAnswer'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/RelayUnauthorized'}
        '403': {$ref: '#/components/responses/RelayForbidden'}
        '404': {$ref: '#/components/responses/RelayNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RelayRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/RelayError'}
        '503': {$ref: '#/components/responses/RelayUnavailable'}
        '504': {$ref: '#/components/responses/RelayTimeout'}
    head:
      tags: [relay]
      operationId: relayHead
      summary: Call an upstream with the session's access token.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        default: {$ref: '#/components/responses/UpstreamAnswer'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/RelayUnauthorized'}
        '403': {$ref: '#/components/responses/RelayForbidden'}
        '404': {$ref: '#/components/responses/RelayNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RelayRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/RelayError'}
        '503': {$ref: '#/components/responses/RelayUnavailable'}
        '504': {$ref: '#/components/responses/RelayTimeout'}
    options:
      tags: [relay]
      operationId: relayOptions
      summary: Call an upstream with the session's access token.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        default: {$ref: '#/components/responses/UpstreamAnswer'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/RelayUnauthorized'}
        '403': {$ref: '#/components/responses/RelayForbidden'}
        '404': {$ref: '#/components/responses/RelayNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RelayRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/RelayError'}
        '503': {$ref: '#/components/responses/RelayUnavailable'}
        '504': {$ref: '#/components/responses/RelayTimeout'}
    post:
      tags: [relay]
      operationId: relayPost
      summary: Call an upstream with the session's access token.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        default: {$ref: '#/components/responses/UpstreamAnswer'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/RelayUnauthorized'}
        '403': {$ref: '#/components/responses/RelayForbidden'}
        '404': {$ref: '#/components/responses/RelayNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RelayRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/RelayError'}
        '503': {$ref: '#/components/responses/RelayUnavailable'}
        '504': {$ref: '#/components/responses/RelayTimeout'}
    put:
      tags: [relay]
      operationId: relayPut
      summary: Call an upstream with the session's access token.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        default: {$ref: '#/components/responses/UpstreamAnswer'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/RelayUnauthorized'}
        '403': {$ref: '#/components/responses/RelayForbidden'}
        '404': {$ref: '#/components/responses/RelayNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RelayRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/RelayError'}
        '503': {$ref: '#/components/responses/RelayUnavailable'}
        '504': {$ref: '#/components/responses/RelayTimeout'}
    patch:
      tags: [relay]
      operationId: relayPatch
      summary: Call an upstream with the session's access token.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        default: {$ref: '#/components/responses/UpstreamAnswer'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/RelayUnauthorized'}
        '403': {$ref: '#/components/responses/RelayForbidden'}
        '404': {$ref: '#/components/responses/RelayNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RelayRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/RelayError'}
        '503': {$ref: '#/components/responses/RelayUnavailable'}
        '504': {$ref: '#/components/responses/RelayTimeout'}
    delete:
      tags: [relay]
      operationId: relayDelete
      summary: Call an upstream with the session's access token.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        default: {$ref: '#/components/responses/UpstreamAnswer'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/RelayUnauthorized'}
        '403': {$ref: '#/components/responses/RelayForbidden'}
        '404': {$ref: '#/components/responses/RelayNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RelayRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/RelayError'}
        '503': {$ref: '#/components/responses/RelayUnavailable'}
        '504': {$ref: '#/components/responses/RelayTimeout'}

  /v1/forward-auth:
    get:
      tags: [backend]
      operationId: forwardAuth
      summary: May this request pass? For nginx, Traefik, Caddy, Envoy, HAProxy.
      description: |
        The session is the cookie's, else that of `X-Coatcheck-Session`. If the caller proved itself by
        `X-Coatcheck-Backend` or as a peer on the backends' own listener, `Authorization: Bearer` is the third choice. The
        answer depends on the session alone. Headers with the original URI are ignored, except for the proof of a bound
        session at a backend with `original_request: true`. A bound session's pass is taken as the app sent it.

        A child session passes only if its kind names this backend (403 `backend_not_allowed`), and slides its parent's
        idle time, too. Any failure denies; there is no redirect. Slides the idle time.

        `acr` and `max_age` in the query are the proxy's own demands on the sign-in, in addition to those of
        `backends.NAME.require`: too little is 401 `step_up_required`. They count for every caller, because they only
        tighten. Other parameters, doubled and malformed ones deny (403 `backend_not_allowed`).

        `presence=1` demands a proof of presence over the original request, in `Coatcheck-Presence` as the app sent it,
        which this answer takes. It needs a backend with `original_request: true` and a proxy that sends method and URL
        (else 403 `backend_not_allowed`).
      parameters:
        - {name: acr, in: query, schema: {type: string, minLength: 1, maxLength: 1608}, description: 'One of these words has to be the session''s `acr`.'}
        - {name: max_age, in: query, schema: {type: integer, minimum: 60, maximum: 2147483648}, description: The most seconds since the sign-in.}
        - {name: presence, in: query, schema: {type: integer, minimum: 1, maximum: 1}, description: 'The request needs a proof of presence.'}
      security:
        - {backendHeader: [], sessionCookie: []}
        - {backendHeader: [], sessionHeader: []}
        - {backendHeader: [], sessionBearer: []}
        - {backendBearer: [], sessionCookie: []}
        - {backendBearer: [], sessionHeader: []}
        - {sessionCookie: []}
        - {sessionBearer: []}
      responses:
        '200':
          description: A live session for this backend.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            X-Auth-Subject: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Provider: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Client: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Session: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Name: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Email: {$ref: '#/components/headers/X-Auth-Email'}
            X-Auth-Scope: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Kind: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Parent: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Acr: {$ref: '#/components/headers/X-Auth'}
            X-Auth-Time:
              description: The time of the user's sign-in, in seconds since 1970, as the provider reports it; empty if it does not.
              schema: {type: string, pattern: '^[0-9]*$'}
            X-Auth-Token:
              description: The provider's access token, only with `backends.NAME.forward_access_token` set.
              schema: {type: string}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401':
          description: |
            `session_required`, `session_ended` with its reason, or `backend_unauthorized`; for a bound session
            `proof_required`, `use_dpop_nonce` or `proof_invalid`, which sign no user out; `step_up_required`;
            `presence_required`, `presence_invalid`.
          headers:
            Coatcheck-Code: {$ref: '#/components/headers/Coatcheck-Code'}
            DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
            Coatcheck-Reason: {$ref: '#/components/headers/Coatcheck-Reason'}
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '403': {$ref: '#/components/responses/ForwardAuthForbidden'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '502': {$ref: '#/components/responses/ProviderError'}
        '503': {$ref: '#/components/responses/Unavailable'}

  /v1/introspect:
    post:
      tags: [backend]
      operationId: introspect
      summary: Introspect a session. RFC 7662.
      description: |
        Slides the idle time only for a backend with `slides: true`. The caller may also use HTTP Basic with the backend's
        name, or send name and credential as `client_id` and `client_secret` in the body, one of these ways at a time.
        Empty and unknown fields are ignored (RFC 6749 section 3.2). Each field has to be unique.
      security: [{backendBearer: []}, {backendHeader: []}, {backendBasic: []}]
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              required: [token]
              properties:
                token: {type: string, minLength: 1, maxLength: 4096, pattern: '^[\x21-\x7E]+$', description: The session token.}
                token_type_hint: {type: string, description: Ignored.}
                pass: {type: string, maxLength: 64, pattern: '^[\x21-\x7E]*$', description: The pass that the app sent.}
                dpop: {type: string, maxLength: 4096, pattern: '^[\x21-\x7E]*$', description: 'The proof that the app sent, with `htm` and `htu`.'}
                htm: {type: string, maxLength: 32, pattern: '^[\x21-\x7E]*$', description: The method of the app's request.}
                htu: {type: string, maxLength: 4096, pattern: '^[\x21-\x7E]*$', description: The address of the app's request.}
                client_id: {type: string, maxLength: 256, pattern: '^[\x21-\x7E]*$', description: The calling backend's name.}
                client_secret: {type: string, maxLength: 512, pattern: '^[\x21-\x7E]*$', description: 'Its credential, sent instead of a header field.'}
            example: {token: 3q2-7wHc0u0Hn5C0jC3Jq7E2q1k5kQm8c2q9y0m4zQE}
      responses:
        '200':
          description: |
            The session, or `{"active":false}` for a token that opens none, or none for this backend. A child session
            whose kind does not name the backend is not for it. A bound session without good evidence gets
            `{"active":false, "code", "reason"?}` and `DPoP-Nonce`. Answer the app 401 with this code and nonce, and sign
            no user out.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/Introspection'}
              examples:
                live: {value: {active: true, sub: u-1, iss: 'https://example.eu.authz.cloudentity.io/example/demo', client_id: cloudentity/ios, scope: openid email, exp: 1792620000, iat: 1784844000, sid: ses_3f9cT0m7bq3yqk0W8bJ1kQ}}
                dead: {value: {active: false}}
                withoutEvidence: {value: {active: false, code: proof_required}}
        '400': {$ref: '#/components/responses/OAuthInvalid'}
        '401': {$ref: '#/components/responses/OAuthUnauthorized'}
        '403': {$ref: '#/components/responses/OAuthForbidden'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/OAuthTooLarge'}
        '415': {$ref: '#/components/responses/OAuthUnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/OAuthRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/OAuthServerError'}
        '503': {$ref: '#/components/responses/OAuthUnavailable'}

  /v1/handovers/redeem:
    post:
      tags: [backend]
      operationId: redeemHandover
      summary: Spend a ticket for a page of this backend's.
      description: |
        For backends with `may: [handover]` and the page's origin among their `origins`. `verifier` is the secret in the
        cookie `__Host-coatcheck-handover` **of that very request**, never a value from its address or page. Otherwise an
        attacker's link could sign a victim in to the attacker's account. The same secret gets the same session for the
        ticket's 60 seconds.

        Keep `session_token` for yourself, and give the browser a cookie of your own. Ask by introspection or exchange
        whether the session lives.
      security: [{backendBearer: []}, {backendHeader: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/RedeemHandover'}
      responses:
        '200':
          description: The session of kind `web`.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/NewSession'}
        '400':
          description: '`verifier_mismatch`: the secret belongs to another ticket; nothing is spent. `invalid_request`.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '409':
          description: '`too_many_sessions`: all places of the family are taken, and none by a web view.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '410':
          description: '`handover_expired`: late, unknown, for another origin or backend, or its session is over.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/token:
    post:
      tags: [backend]
      operationId: exchangeToken
      summary: The provider's access token for a session. RFC 8693.
      description: |
        The token is refreshed first if needed, and the call slides the idle time. Without `resource`, `audience` and
        `scope` the answer is the session's own token. A dead session is 400 `invalid_grant`. A Zephr session, which has
        no access token, is `invalid_target`. A bound session without good evidence is `invalid_grant` with the `code`
        `proof_required`, `use_dpop_nonce` or `proof_invalid`, and `DPoP-Nonce`.

        *Bound tokens.* The provider may have bound the access token to a key of the broker's. The token then goes out
        with a proof for one request alone, and `token_type` is `DPoP`. The fields `dpop_htm` and `dpop_htu` name that
        request: the backend's own, not the app's request of `htm` and `htu`. Without them, or with an endpoint of the
        provider's own, it is `invalid_target`. A token that is bound to the client's certificate is always
        `invalid_target`, because it is good on the broker's own connections alone.

        *Sign-in.* If the session lacks a demand of `backends.NAME.require`, it is 400 `insufficient_user_authentication`
        with `acr_values` and `max_age` (RFC 9470).

        *Another API.* `resource`, `audience` and `scope` name another API for the token. Together they have to be one
        entry of `backends.NAME.tokens`, as a whole and in any order, else 400 `invalid_target`. So is a session that can
        get no such token, because it has no refresh token, or its provider's tokens are for one API alone. A provider's
        refusal is 502, which ends no session.

        The credential may come in the body, as at introspection. Unknown fields are refused, stricter than RFC 6749
        section 3.2, because a misspelt target would hand out the session's own token.
      security: [{backendBearer: []}, {backendHeader: []}, {backendBasic: []}]
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              additionalProperties: false
              required: [grant_type, subject_token, subject_token_type]
              properties:
                grant_type: {type: string, const: 'urn:ietf:params:oauth:grant-type:token-exchange'}
                subject_token: {type: string, minLength: 1, maxLength: 4096, pattern: '^[\x21-\x7E]+$', description: The session token.}
                subject_token_type: {type: string, const: 'urn:ietf:params:oauth:token-type:access_token'}
                requested_token_type: {type: string, const: 'urn:ietf:params:oauth:token-type:access_token'}
                pass: {type: string, maxLength: 64, pattern: '^[\x21-\x7E]*$', description: The pass that the app sent.}
                dpop: {type: string, maxLength: 4096, pattern: '^[\x21-\x7E]*$', description: 'The proof that the app sent, with `htm` and `htu`.'}
                htm: {type: string, maxLength: 32, pattern: '^[\x21-\x7E]*$', description: The method of the app's request.}
                htu: {type: string, maxLength: 4096, pattern: '^[\x21-\x7E]*$', description: The address of the app's request.}
                dpop_htm: {type: string, minLength: 1, maxLength: 32, pattern: '^[\x21-\x7E]+$', description: 'The method of the request that the backend will make, with `dpop_htu`.'}
                dpop_htu: {type: string, minLength: 1, maxLength: 4096, pattern: '^[\x21-\x7E]+$', description: 'The address of that request: https (http on loopback), without query and fragment.'}
                dpop_nonce: {type: string, minLength: 1, maxLength: 512, pattern: '^[\x21-\x7E]+$', description: 'The last nonce of that request''s server, if there is one.'}
                resource:
                  type: array
                  maxItems: 8
                  description: The resources of the API (RFC 8707), a field for each.
                  items: {type: string, minLength: 1, maxLength: 2048, pattern: '^[\x21-\x7E]+$'}
                audience: {type: string, minLength: 1, maxLength: 512, pattern: '^[\x20-\x7E]+$', description: The name of the API at the provider.}
                scope: {type: string, maxLength: 4096, pattern: '^[\x20-\x21\x23-\x5B\x5D-\x7E]*$', description: 'The scope of the token, words with spaces between them; an empty one is absent.'}
                client_id: {type: string, maxLength: 256, pattern: '^[\x21-\x7E]*$', description: The calling backend's name.}
                client_secret: {type: string, maxLength: 512, pattern: '^[\x21-\x7E]*$', description: 'Its credential, sent instead of a header field.'}
            example:
              grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange'
              subject_token: 3q2-7wHc0u0Hn5C0jC3Jq7E2q1k5kQm8c2q9y0m4zQE
              subject_token_type: 'urn:ietf:params:oauth:token-type:access_token'
      responses:
        '200':
          description: The provider's access token.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema: {$ref: '#/components/schemas/ExchangedToken'}
              example: {access_token: at-1, issued_token_type: 'urn:ietf:params:oauth:token-type:access_token', token_type: Bearer, expires_in: 3540, scope: openid email}
        '400': {$ref: '#/components/responses/OAuthInvalid'}
        '401': {$ref: '#/components/responses/OAuthUnauthorized'}
        '403': {$ref: '#/components/responses/OAuthForbidden'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/OAuthTooLarge'}
        '415': {$ref: '#/components/responses/OAuthUnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/OAuthRateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/OAuthServerError'}
        '502':
          description: The provider's answer to the refresh broke its contract, or it refuses a token for this API.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content: {application/json: {schema: {$ref: '#/components/schemas/OAuthError'}}}
        '503': {$ref: '#/components/responses/OAuthUnavailable'}

  /callback/{provider}:
    parameters:
      - {$ref: '#/components/parameters/Provider'}
    get:
      tags: [provider]
      operationId: hostedCallback
      summary: The hosted callback (flow C).
      description: |
        For providers that return to https addresses only. Sends the browser to the client's registered
        `hosted_callback_to` with `?handoff=…&login_id=…` (one use, 60 seconds) or `?error=<code>&login_id=…`. The
        provider's code never reaches the device. An arrival without a state goes on as
        `?error=login_required&provider=…&client=…`. HEAD and prefetch change nothing.

        The same callback gives the same handoff. While it lives, another callback of the login is
        `?error=state_mismatch`. An address that makes too many handoffs gets `?error=rate_limited`.
      security: []
      parameters:
        - {name: code, in: query, schema: {$ref: '#/components/schemas/CallbackValue'}}
        - {name: state, in: query, schema: {$ref: '#/components/schemas/CallbackValue'}}
        - {name: iss, in: query, schema: {$ref: '#/components/schemas/CallbackValue'}}
        - {name: error, in: query, schema: {$ref: '#/components/schemas/CallbackValue'}}
      responses:
        '303': {$ref: '#/components/responses/ToTheApp'}
        '400': {$ref: '#/components/responses/InvalidCallback'}
        '404': {$ref: '#/components/responses/ProviderNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}
    post:
      tags: [provider]
      operationId: hostedFormCallback
      summary: The hosted callback by `response_mode=form_post` (Apple).
      description: Like the GET. No cookie is read or set. The state protects it, so the cross-origin rule does not apply.
      security: []
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              properties:
                code: {$ref: '#/components/schemas/CallbackValue'}
                state: {$ref: '#/components/schemas/CallbackValue'}
                iss: {$ref: '#/components/schemas/CallbackValue'}
                error: {$ref: '#/components/schemas/CallbackValue'}
                user: {type: string, maxLength: 4096, description: Apple's JSON with the name; it comes once.}
      responses:
        '303': {$ref: '#/components/responses/ToTheApp'}
        '400': {$ref: '#/components/responses/InvalidCallback'}
        '404': {$ref: '#/components/responses/ProviderNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /v1/backchannel-logout/{provider}:
    parameters:
      - {$ref: '#/components/parameters/Provider'}
    post:
      tags: [provider]
      operationId: backchannelLogout
      summary: OpenID Connect Back-Channel Logout 1.0.
      description: |
        Ends the session that the token's `sid` names, or all of its `sub`'s. The answer is the same with and without such
        a session. Cookies are ignored; the token's signature is the authentication.
      security: []
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              required: [logout_token]
              properties:
                logout_token: {type: string, minLength: 1, maxLength: 16384, pattern: '^[\x21-\x7E]+$'}
            example: {logout_token: eyJhbGciOiJSUzI1NiJ9.e30.c2ln}
      responses:
        '200':
          description: The token was good.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '404': {$ref: '#/components/responses/ProviderNotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/Unavailable'}

  /.well-known/apple-app-site-association:
    get:
      tags: [public]
      operationId: appleAppSiteAssociation
      summary: Apple's app association file, from `app_links.ios`.
      security: []
      responses:
        '200':
          description: The file.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/json:
              schema:
                type: object
                required: [applinks]
                properties:
                  applinks: {type: object, required: [details], properties: {details: {type: array, items: {type: object}}}}
                  webcredentials:
                    type: object
                    description: 'With `app_links.ios.webcredentials`.'
                    required: [apps]
                    properties: {apps: {type: array, items: {type: string}}}
              example: {applinks: {details: [{appIDs: [TEAMID.com.example.app], components: [{/: /oauth/*}]}]}}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '404': {$ref: '#/components/responses/NotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /.well-known/assetlinks.json:
    get:
      tags: [public]
      operationId: assetLinks
      summary: Android's app association file, from `app_links.android`.
      security: []
      responses:
        '200':
          description: The file.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/json:
              schema:
                type: array
                items: {type: object, required: [relation, target], properties: {relation: {type: array, items: {type: string}}, target: {type: object}}}
              example: [{relation: [delegate_permission/common.handle_all_urls], target: {namespace: android_app, package_name: com.example.app, sha256_cert_fingerprints: ['14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5']}}]
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '404': {$ref: '#/components/responses/NotFound'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /openapi.yaml:
    get:
      tags: [public]
      operationId: readContract
      summary: This contract.
      security: []
      responses:
        '200':
          description: The file.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content: {application/yaml: {schema: {type: object}}}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '431': {$ref: '#/components/responses/HeadersTooLarge'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /livez:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    get:
      tags: [management]
      operationId: livez
      summary: Is the process alive?
      description: HTTP/1.0 may ask without a `Host`, as HAProxy's `option httpchk` does.
      security: []
      responses:
        '200':
          description: The process is alive.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content: {application/json: {schema: {type: object, required: [status], properties: {status: {type: string, const: live}}}}}
        '421': {$ref: '#/components/responses/WrongHost'}

  /readyz:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    get:
      tags: [management]
      operationId: readyz
      summary: Can it serve? Store reachable, migrations done, the store's own key ring, no shutdown.
      description: |
        HTTP/1.0 may ask without a `Host`, as HAProxy's `option httpchk` does.

        Several faults are shown and do not count, because sessions are served all the same. These are the providers'
        state, a revocation endpoint that cannot be called (`problems` names it), a clock ahead of the database's, and a
        full disk. A shutdown turns it red at once; the listeners close `server.drain_delay` later.
      security: []
      responses:
        '200':
          description: Ready.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content: {application/json: {schema: {$ref: '#/components/schemas/Readiness'}, example: {status: ready, store: ok, disk: ok, keys: ok, problems: [], providers: {cloudentity: ok}}}}
        '421': {$ref: '#/components/responses/WrongHost'}
        '503':
          description: Not ready, with the reason.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Retry-After: {$ref: '#/components/headers/Retry-After'}
          content: {application/json: {schema: {$ref: '#/components/schemas/Readiness'}, example: {status: shutting_down, store: ok, disk: ok, keys: ok, problems: ['shutting down: 3 requests and 2 event streams are under way'], providers: {}}}}

  /metrics:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    get:
      tags: [management]
      operationId: metrics
      summary: Prometheus text.
      security: []
      responses:
        '200':
          description: The metrics; labels come from fixed sets.
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content: {text/plain: {schema: {type: string}}}
        '421': {$ref: '#/components/responses/WrongHost'}

  /admin/v1/sessions:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    get:
      tags: [management]
      operationId: adminListSessions
      summary: Live or ended sessions by subject, provider or client.
      description: |
        Needs an admin token with `read`. With no admin token configured, `/admin` is 404. Ended sessions are found for 30
        days, with the reason: "why was I logged out?". A session that ran out by time is refused at once. It is in
        neither list for about a day, because its row is kept whole in case the clock was wrong. Then it is listed as
        ended, with that time as `ended_at`.
      security: [{adminBearer: []}]
      parameters:
        - {name: subject, in: query, schema: {type: string, minLength: 1, maxLength: 512, pattern: '^[\x20-\x7E]+$'}, description: Needs `provider` too.}
        - {name: provider, in: query, schema: {$ref: '#/components/schemas/Name'}}
        - {name: client, in: query, schema: {$ref: '#/components/schemas/Name'}, description: Needs `provider` too.}
        - name: state
          in: query
          description: Live ones by their creation, or ended ones by their end.
          schema: {type: string, enum: [live, ended], default: live}
        - {$ref: '#/components/parameters/Binding'}
        - {$ref: '#/components/parameters/Cursor'}
      responses:
        '200':
          description: A page of sessions, newest first. `ended_at` and `reason` are null for live ones.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content: {application/json: {schema: {$ref: '#/components/schemas/AdminSessionList'}}}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFoundOrProvider'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

    delete:
      tags: [management]
      operationId: adminEndSessions
      summary: End every session of a provider, or of one of its clients, with the reason `admin`.
      description: |
        Needs an admin token with `end`. The audit row is written first; if that fails, nothing happens. `binding=none`
        ends the sessions that belong to no key, for some seconds. While `next_cursor` is not null, call again with it as
        `cursor`.
      security: [{adminBearer: []}]
      parameters:
        - {name: provider, in: query, required: true, schema: {$ref: '#/components/schemas/Name'}}
        - {name: client, in: query, schema: {$ref: '#/components/schemas/Name'}}
        - {$ref: '#/components/parameters/Binding'}
        - {$ref: '#/components/parameters/Cursor'}
      responses:
        '200': {$ref: '#/components/responses/HowManyEnded'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFoundOrProvider'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /admin/v1/sessions/{handle}:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    delete:
      tags: [management]
      operationId: adminEndSession
      summary: End one session, with the reason `admin`.
      description: Needs an admin token with `end`. The audit row is written first; if that fails, nothing happens.
      security: [{adminBearer: []}]
      parameters:
        - {$ref: '#/components/parameters/Handle'}
      responses:
        '204': {$ref: '#/components/responses/Done'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFound'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /admin/v1/subjects/{provider}/{subject}/sessions:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    delete:
      tags: [management]
      operationId: adminEndSubject
      summary: End every session of a subject, with the reason `admin`.
      security: [{adminBearer: []}]
      parameters:
        - {$ref: '#/components/parameters/Provider'}
        - {name: subject, in: path, required: true, description: Percent-encoded., schema: {type: string, minLength: 1, maxLength: 512, pattern: '^[A-Za-z0-9._~-]+$'}}
      responses:
        '200': {$ref: '#/components/responses/HowManyEnded'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFoundOrProvider'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /admin/v1/providers:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    get:
      tags: [management]
      operationId: adminProviders
      summary: The state of each provider's calls.
      security: [{adminBearer: []}]
      responses:
        '200':
          description: The providers' state.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema:
                type: object
                required: [items]
                properties:
                  items: {type: array, items: {$ref: '#/components/schemas/ProviderState'}}
              example: {items: [{name: cloudentity, kind: oidc, breaker: closed, issuer: 'https://example.eu.authz.cloudentity.io/example/demo', failures_in_a_row: 0}]}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFound'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /admin/v1/keys:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    get:
      tags: [management]
      operationId: adminKeys
      summary: The key ring's keys, newest first, with the number of stored values that need each.
      description: |
        Needs an admin token with `read`. Every row is counted. Exchanges count as long as their answers can be repeated.
        A key that rows name and the ring does not have is `missing`.
      security: [{adminBearer: []}]
      responses:
        '200':
          description: The keys' names and counts, never the keys themselves.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema:
                type: object
                required: [items]
                properties:
                  items: {type: array, items: {$ref: '#/components/schemas/KeyState'}}
              example: {items: [{id: kQ3v9bZ1x, use: seals, seals_from: null, values: 1200}]}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFound'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /admin/v1/keys/reseal:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    get:
      tags: [management]
      operationId: adminResealProgress
      summary: The progress of sealing again in this process.
      security: [{adminBearer: []}]
      responses:
        '200':
          description: The progress.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content: {application/json: {schema: {$ref: '#/components/schemas/ResealProgress'}}}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFound'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

    post:
      tags: [management]
      operationId: adminReseal
      summary: Seal everything under the newest key, in the background.
      description: |
        Needs an admin token with `maintain`. If it runs already, it goes on; `elsewhere` is another process. The audit
        row is written first; if that fails, nothing happens.
      security: [{adminBearer: []}]
      responses:
        '202':
          description: Sealing runs, here or elsewhere.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content: {application/json: {schema: {$ref: '#/components/schemas/ResealProgress'}}}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFound'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /admin/v1/backups:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    post:
      tags: [management]
      operationId: adminBackUp
      summary: Write a backup of the SQLite database to a new file on the broker's machine, and check it.
      description: |
        Needs an admin token with `maintain`. The file is made with mode 0600; an existing file or a link is refused. 404
        if the store is not SQLite. The audit row is written first; if that fails, nothing happens.
      security: [{adminBearer: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              additionalProperties: false
              required: [file]
              properties:
                file: {type: string, minLength: 2, maxLength: 4096, pattern: '^/.*[^/]$', description: An absolute path.}
            example: {file: /var/backups/coatcheck-2026-11-22.db}
      responses:
        '201':
          description: Written, and SQLite's integrity check passes.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema:
                type: object
                required: [file, bytes, sessions, schema_version, opens, ring]
                properties:
                  file: {type: string}
                  bytes: {type: integer, minimum: 0}
                  sessions: {type: integer, minimum: 0, description: Live ones and tombstones.}
                  schema_version: {type: integer, minimum: 1}
                  opens: {type: boolean, description: Whether the key ring opens a sample of it.}
                  ring: {type: string, description: A sentence about that.}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFound'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}
        '503': {$ref: '#/components/responses/StoreUnavailable'}

  /admin/v1/config/diff:
    servers: [{url: 'http://127.0.0.1:9090', description: The management listener.}]
    post:
      tags: [management]
      operationId: adminCompareConfiguration
      summary: Compare a configuration's settings with the running ones.
      description: |
        Needs an admin token with `configure`. Values of neither side are sent. A setting's digest is the SHA-256 of the
        salt, a zero byte, its path, a zero byte and its value as text. `{env: …}` and `{file: …}` count with their
        contents. The answer has every path of either side. `coatcheck config diff` makes this call.
      security: [{adminBearer: []}]
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              additionalProperties: false
              required: [salt, items]
              properties:
                salt: {type: string, minLength: 22, maxLength: 86, pattern: '^[A-Za-z0-9_-]+$', description: Random bytes in base64url.}
                items:
                  type: array
                  maxItems: 10000
                  items:
                    type: object
                    additionalProperties: false
                    required: [path, digest]
                    properties:
                      path: {type: string, minLength: 1, maxLength: 1024}
                      digest: {type: string, minLength: 43, maxLength: 43, pattern: '^[A-Za-z0-9_-]{43}$'}
            example: {salt: AAAAAAAAAAAAAAAAAAAAAA, items: [{path: server.listen, digest: 47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU}]}
      responses:
        '200':
          description: The paths, and whether their values differ.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
          content:
            application/json:
              schema:
                type: object
                required: [changed, items]
                properties:
                  changed: {type: integer, minimum: 0, description: How many differ.}
                  items:
                    type: array
                    items:
                      type: object
                      required: [path, state, needs_restart]
                      properties:
                        path: {type: string, description: 'Where the setting stands, as a dotted path.'}
                        state: {type: string, description: '`same` or `changed`.'}
                        needs_restart: {type: boolean, description: Whether it differs and a reload would refuse it.}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '404': {$ref: '#/components/responses/NotFound'}
        '413': {$ref: '#/components/responses/TooLarge'}
        '415': {$ref: '#/components/responses/UnsupportedMediaType'}
        '421': {$ref: '#/components/responses/WrongHost'}
        '429': {$ref: '#/components/responses/RateLimited'}
        '500': {$ref: '#/components/responses/InternalError'}

components:
  securitySchemes:
    sessionCookie:
      type: apiKey
      in: cookie
      name: __Host-coatcheck
      description: The session token. `coatcheck` if `public_url` is plain http.
    sessionBearer:
      type: http
      scheme: bearer
      description: The session token of a client with `transport bearer`.
    loginCookie:
      type: apiKey
      in: cookie
      name: __Host-coatcheck-login
      description: The login token. `coatcheck-login` if `public_url` is plain http.
    webCookie:
      type: apiKey
      in: cookie
      name: __Host-coatcheck-web
      description: The token of a session of kind `web`, and of no other. `coatcheck-web` if `public_url` is plain http.
    sessionHeader:
      type: apiKey
      in: header
      name: X-Coatcheck-Session
      description: The session token, put there by a backend (`/v1/forward-auth` only).
    backendBearer: {type: http, scheme: bearer, description: A backend's credential.}
    backendHeader: {type: apiKey, in: header, name: X-Coatcheck-Backend, description: A backend's credential.}
    backendBasic: {type: http, scheme: basic, description: A backend's name and credential.}
    adminBearer: {type: http, scheme: bearer, description: An admin token.}

  parameters:
    Provider:
      name: provider
      in: path
      required: true
      description: A provider's name from the configuration.
      schema: {$ref: '#/components/schemas/Name'}
    Handle:
      name: handle
      in: path
      required: true
      schema: {$ref: '#/components/schemas/Handle'}
    Binding:
      name: binding
      in: query
      description: Only sessions that belong to no key of a device. So a page may have fewer items, or none, and a `next_cursor`.
      schema: {type: string, enum: [none]}
    Cursor:
      name: cursor
      in: query
      description: '`next_cursor` of the former page.'
      schema: {type: string, minLength: 1, maxLength: 256, pattern: '^[A-Za-z0-9_-]+$'}

  headers:
    X-Request-Id:
      description: Names this request in the broker's log; the problem's `request_id` is the same.
      required: true
      schema: {type: string, pattern: '^req_[A-Za-z0-9_-]{11}$'}
    No-Store:
      description: '`no-store`.'
      required: true
      schema: {type: string, pattern: '(^|, )no-store'}
    X-Accel-Buffering:
      description: '`no`, so that a proxy such as nginx passes each event on at once.'
      required: true
      schema: {type: string, example: 'no'}
    Retry-After:
      description: Seconds to wait.
      required: true
      schema: {type: string, pattern: '^[0-9]+$'}
    WWW-Authenticate:
      description: The challenge (RFC 9110).
      required: true
      schema: {type: string}
    Set-Session-Cookie:
      description: |
        `__Host-coatcheck=<43 characters base64url>; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=<seconds left>; Expires=<their end>`.
        Not for clients with `transport: bearer`.
      schema: {type: string}
    Clear-Session-Cookie:
      description: '`__Host-coatcheck=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0; Expires=Thu, 01-Jan-1970 00:00:00 GMT`.'
      schema: {type: string}
    Set-Login-Cookie:
      description: |
        `__Host-coatcheck-login=<43 characters base64url>; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=600; Expires=<their end>`.
        Not for clients with `transport: bearer`.
      schema: {type: string}
    Set-Pass-Cookie:
      description: |
        `__Host-coatcheck-pass=<32 characters base64url>; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=<its life>; Expires=<its end>`.
        Not for clients with `transport: bearer`.
      schema: {type: string}
    Next-Nonce:
      description: |
        The nonce for the next proof (RFC 9449 section 8): on every 401 for missing evidence, and on answers to a proof
        whose nonce is about to end.
      schema: {type: string, pattern: '^[A-Za-z0-9_-]{16}$'}
    Coatcheck-Code:
      description: The `code` of a 401 for missing evidence, for gateways that lose its body.
      schema: {type: string}
    Coatcheck-Source:
      description: The author of the answer.
      required: true
      schema: {type: string, description: '`broker` or `upstream`.'}
    Coatcheck-Reason:
      description: |
        The `reason` of `session_ended` and of `presence_invalid`, for proxies that ask by a subrequest and lose the body.
        Never with another code.
      schema: {type: string, description: 'An `EndReason` of `session_ended`; of `presence_invalid` the problem''s `reason`.'}
    X-Auth:
      description: |
        Always there, empty when unknown, percent-encoded outside 0x21–0x7E, 256 bytes at most. The proxy replaces the
        client's own field of that name with it.
      required: true
      schema: {type: string, maxLength: 256, pattern: '^[\x21-\x7E]*$'}
    X-Auth-Email:
      description: Like the others. Also empty if the provider does not call the address verified (`email_verified` is present, and is neither `true` nor the text `true`).
      required: true
      schema: {type: string, maxLength: 256, pattern: '^[\x21-\x7E]*$'}
    Strict-Transport-Security:
      description: '`max-age=31536000; includeSubDomains`, on the public listener if `public_url` is https.'
      schema: {type: string}
    Content-Security-Policy:
      description: |
        `default-src 'none'; frame-ancestors 'none'`; on an upstream's answer
        `default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox` (a PDF without `sandbox`).
      schema: {type: string}
    Referrer-Policy:
      description: '`no-referrer`.'
      schema: {type: string}
    X-Content-Type-Options:
      description: '`nosniff`.'
      schema: {type: string}

  responses:
    Done:
      description: Done.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
    HowManyEnded:
      description: The number of ended sessions.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
      content:
        application/json:
          schema: {$ref: '#/components/schemas/HowManyEnded'}
          example: {ended: 3}
    LoggedOut:
      description: The session is gone. The cookie is cleared.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
        Set-Cookie: {$ref: '#/components/headers/Clear-Session-Cookie'}
    Session:
      description: The session.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
      content:
        application/json:
          schema: {$ref: '#/components/schemas/Session'}
          examples: {clover: {$ref: '#/components/examples/Session'}}
    SessionMade:
      description: The session. It is stored durably.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
        Set-Cookie: {$ref: '#/components/headers/Set-Session-Cookie'}
      content:
        application/json:
          schema: {$ref: '#/components/schemas/NewSession'}
          examples: {clover: {$ref: '#/components/examples/Session'}}
    ToTheApp:
      description: To the client's `hosted_callback_to`.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
        Location:
          required: true
          description: '`<hosted_callback_to>?handoff=…&login_id=…` or `?error=<code>…`.'
          schema: {type: string}
    InvalidRequest:
      description: |
        `invalid_request`: the request is malformed, or its two credentials name different sessions. `errors` names every
        fault.
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
          example:
            type: 'urn:coatcheck:problem:invalid_request'
            title: Invalid request
            status: 400
            code: invalid_request
            detail: The request is not as the contract says.
            request_id: req_7bq3yqk0W8b
            errors: [{pointer: /provider, code: required}, {pointer: /colour, code: unknown}]
    InvalidCallback:
      description: |
        `invalid_callback`: a parameter twice, or too many. `invalid_request`: a malformed request, or a prefetch.
        Everything else goes on to the app as `?error=…`.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    ProofOrSessionWanted:
      description: |
        `proof_required`: the client's sign-ins have to prove a key. `use_dpop_nonce`: make the proof with the nonce of
        this answer. `proof_invalid`: `reason` names the fault. For a step-up, `session_required` and `session_ended` of
        its session as well. Nothing was spent.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
        DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
        Coatcheck-Code: {$ref: '#/components/headers/Coatcheck-Code'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
          example: {type: 'urn:coatcheck:problem:session_required', title: Session required, status: 401, code: session_required, detail: The request has no session. Sign in first., request_id: req_7bq3yqk0W8b}
    ProofWanted:
      description: |
        `proof_required`: the client's sign-ins have to prove a key. `use_dpop_nonce`: make the proof with the nonce of
        this answer. `proof_invalid`: `reason` names the fault. Nothing was spent.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
        DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
        Coatcheck-Code: {$ref: '#/components/headers/Coatcheck-Code'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
          example: {type: 'urn:coatcheck:problem:use_dpop_nonce', title: Use the nonce, status: 401, code: use_dpop_nonce, detail: Make the proof with the nonce of this answer., request_id: req_7bq3yqk0W8b}
    NoSession:
      description: |
        `session_required`: the request has no session, or an unknown one; forget a cookie that was sent, because it is
        not cleared. `session_ended`: the session ended, `reason` is why, and the cookie is cleared. For a bound session
        `proof_required`, `use_dpop_nonce`, or `proof_invalid` with its `reason`: the session and the cookie stay.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
        Coatcheck-Code: {$ref: '#/components/headers/Coatcheck-Code'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
        Coatcheck-Reason: {$ref: '#/components/headers/Coatcheck-Reason'}
        Set-Cookie: {$ref: '#/components/headers/Clear-Session-Cookie'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
          examples:
            none:
              value: {type: 'urn:coatcheck:problem:session_required', title: Session required, status: 401, code: session_required, detail: There is no session., request_id: req_7bq3yqk0W8b}
            ended:
              value: {type: 'urn:coatcheck:problem:session_ended', title: Session ended, status: 401, code: session_ended, detail: The session has ended., request_id: req_7bq3yqk0W8b, reason: grant_revoked}
    PresenceKeyUnauthorized:
      description: |
        `session_required`, `session_ended`; `proof_required`, `use_dpop_nonce`, `proof_invalid`: the session's own proof.
        `step_up_required`: the user did not sign in within ten minutes. `presence_required`: there is no
        `Coatcheck-Presence`. `presence_invalid`: `reason` names the fault.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
        Coatcheck-Code: {$ref: '#/components/headers/Coatcheck-Code'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
        Coatcheck-Reason: {$ref: '#/components/headers/Coatcheck-Reason'}
        Set-Cookie: {$ref: '#/components/headers/Clear-Session-Cookie'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
          examples:
            stepUp:
              value: {type: 'urn:coatcheck:problem:step_up_required', title: Step-up required, status: 401, code: step_up_required, detail: This needs a stronger or more recent sign-in. The session stays as it is., request_id: req_7bq3yqk0W8b, step_up: {max_age: 600}}
            other:
              value: {type: 'urn:coatcheck:problem:presence_invalid', title: Invalid proof of presence, status: 401, code: presence_invalid, detail: The session has another presence key already. Another key is another session., request_id: req_7bq3yqk0W8b, reason: key}
    AdminUnauthorized:
      description: '`backend_unauthorized`: no admin token, or an unknown one.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    ForwardAuthForbidden:
      description: |
        `backend_not_allowed`: the credential may not do this, or not for this session. Also: the query is unreadable, or
        it demands presence and the original request is missing. `client_not_allowed`: a child session of a kind that is
        not configured. `step_up_failed`: no sign-in of the session's provider can meet the demand, or presence is
        demanded of an unbound session.
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    BackendNotAllowed:
      description: '`backend_not_allowed`: the credential may not do this, or not for this session; `client_not_allowed`: a child session of a kind that is not configured.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    CrossOrigin:
      description: '`cross_origin`: see the cross-origin rule.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    NotForChildren:
      description: '`client_not_allowed`: the session is a child, whose parent has to make this call, or of a kind that is not configured; `cross_origin`.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    NotFound:
      description: '`not_found`.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    NotFoundOrProvider:
      description: '`not_found`, or `provider_not_found`.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    ProviderNotFound:
      description: '`provider_not_found`: no provider of that name. `not_found`: no such path.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RequestTimeout:
      description: '`request_timeout`: the request came too slowly.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    TooLarge:
      description: '`too_large`.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    UnsupportedMediaType:
      description: '`unsupported_media_type`.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    WrongHost:
      description: '`wrong_host`: `Host` is not a name of this listener.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RateLimited:
      description: '`rate_limited`.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Retry-After: {$ref: '#/components/headers/Retry-After'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RelayRateLimited:
      description: |
        `rate_limited`: too many of this user's or this session's calls to the upstream are in progress, or too many
        unknown tokens came from this address, or the session has used 30 proofs of presence in a minute.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Retry-After: {$ref: '#/components/headers/Retry-After'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    HeadersTooLarge:
      description: '`headers_too_large`: the request line or the header fields.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    InternalError:
      description: '`internal_error`.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    ProviderError:
      description: |
        `provider_error`: the provider's answer broke its contract. `identity_rejected`: the id_token or the userinfo
        answer failed verification.
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    Unavailable:
      description: |
        `provider_unavailable`, `store_unavailable` or `shutting_down`. With `retry: new_login` the same code is useless
        now.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Retry-After: {$ref: '#/components/headers/Retry-After'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RelayUnavailable:
      description: |
        `upstream_busy` (all of the upstream's places are taken), `upstream_nonce` (the upstream wants another proof of
        the broker's, and the request's body is gone: send it again), `provider_unavailable`, `store_unavailable` or
        `shutting_down`.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Retry-After: {$ref: '#/components/headers/Retry-After'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    StoreUnavailable:
      description: '`store_unavailable` or `shutting_down`.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Retry-After: {$ref: '#/components/headers/Retry-After'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    UpstreamAnswer:
      description: The upstream's answer, with its own status.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Coatcheck-Source: {$ref: '#/components/headers/Coatcheck-Source'}
    RelayUnauthorized:
      description: |
        As everywhere: `session_required`, `session_ended`, and of bound sessions `proof_required`, `use_dpop_nonce`,
        `proof_invalid`. `step_up_required`: the call needs a stronger or more recent sign-in. `step_up` has the demand;
        the session and the cookie stay. `presence_required`, `presence_invalid`: the call needs the presence key's proof
        over this very request, made with the nonce of this answer.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
        DPoP-Nonce: {$ref: '#/components/headers/Next-Nonce'}
        Coatcheck-Code: {$ref: '#/components/headers/Coatcheck-Code'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
        Coatcheck-Reason: {$ref: '#/components/headers/Coatcheck-Reason'}
        Set-Cookie: {$ref: '#/components/headers/Clear-Session-Cookie'}
        Coatcheck-Source: {$ref: '#/components/headers/Coatcheck-Source'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RelayForbidden:
      description: |
        `upstream_not_allowed`: the method and path are not on the upstream's list, the session is of another provider, or
        it has no access token because it was made of an id_token. Also: it can get no token for this upstream, or is a
        child whose kind does not name the upstream. `client_not_allowed`: a child of a kind that is not configured.
        `cross_origin`. `step_up_failed`: no sign-in of this provider's can meet the demand, the session already meets the
        upstream's challenge, or the call needs presence and the session is unbound.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Coatcheck-Source: {$ref: '#/components/headers/Coatcheck-Source'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RelayNotFound:
      description: '`upstream_not_found`, or `not_found`.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Coatcheck-Source: {$ref: '#/components/headers/Coatcheck-Source'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RelayError:
      description: '`upstream_error` (no usable answer from the upstream), `provider_error`, `identity_rejected`.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Coatcheck-Source: {$ref: '#/components/headers/Coatcheck-Source'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RelayTimeout:
      description: '`upstream_timeout`: no head from the upstream in 30 seconds.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Coatcheck-Source: {$ref: '#/components/headers/Coatcheck-Source'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    OAuthInvalid:
      description: '`invalid_request`, `invalid_grant`, `unsupported_grant_type`, `invalid_target` (RFC 6749, RFC 8693).'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Cache-Control: {$ref: '#/components/headers/No-Store'}
      content:
        application/json:
          schema: {$ref: '#/components/schemas/OAuthError'}
          example: {error: invalid_grant, error_description: The session has ended., code: session_ended}
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    OAuthUnauthorized:
      description: '`invalid_client`: no credential, or an unknown one.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
      content: {application/json: {schema: {$ref: '#/components/schemas/OAuthError'}, example: {error: invalid_client, error_description: Unknown credential., code: backend_unauthorized}}}
    OAuthForbidden:
      description: '`unauthorized_client`: the credential may not do this, or not for this session.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content: {application/json: {schema: {$ref: '#/components/schemas/OAuthError'}, example: {error: unauthorized_client, error_description: This credential may not do this., code: backend_not_allowed}}}
    OAuthTooLarge:
      description: '`too_large`.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content: {application/json: {schema: {$ref: '#/components/schemas/OAuthError'}}}
    OAuthUnsupportedMediaType:
      description: '`unsupported_media_type`: the body is a form.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content: {application/json: {schema: {$ref: '#/components/schemas/OAuthError'}}}
    OAuthRateLimited:
      description: '`rate_limited`.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Retry-After: {$ref: '#/components/headers/Retry-After'}
      content: {application/json: {schema: {$ref: '#/components/schemas/OAuthError'}}}
    OAuthServerError:
      description: '`server_error`.'
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content: {application/json: {schema: {$ref: '#/components/schemas/OAuthError'}}}
    OAuthUnavailable:
      description: '`temporarily_unavailable`.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Retry-After: {$ref: '#/components/headers/Retry-After'}
      content: {application/json: {schema: {$ref: '#/components/schemas/OAuthError'}, example: {error: temporarily_unavailable, error_description: Try again later., code: provider_unavailable}}}

  schemas:
    Name:
      type: string
      description: A name from the configuration.
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'
    Handle:
      type: string
      description: A session's public name. Not a secret, opens nothing.
      pattern: '^ses_[A-Za-z0-9_-]{22}$'
    Token:
      type: string
      description: 32 random bytes as base64url.
      pattern: '^[A-Za-z0-9_-]{43}$'
    Time:
      type: string
      format: date-time
      pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$'
    Opaque:
      type: string
      description: Another party's secret.
      minLength: 1
      maxLength: 4096
      pattern: '^[\x21-\x7E]+$'
    CallbackValue:
      type: string
      maxLength: 4096
    RedirectURI:
      type: string
      description: One of the client's registered redirect URIs, byte for byte; a loopback address may have any port.
      minLength: 3
      maxLength: 2048
      pattern: '^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7E]+$'
    CodeVerifier:
      type: string
      description: RFC 7636.
      pattern: '^[A-Za-z0-9._~-]{43,128}$'
    LoginToken:
      type: string
      description: The login token, from the body of the login's 201, or (flow B) a secret that the app chose for this attempt.
      pattern: '^[A-Za-z0-9_-]{43,128}$'

    StepUp:
      type: object
      description: The demanded class and age of the sign-in (RFC 9470).
      additionalProperties: false
      minProperties: 1
      properties:
        acr_values:
          type: string
          description: Space-separated, at most eight; one of them has to be the id_token's `acr`.
          minLength: 1
          maxLength: 1608
          pattern: '^[\x21\x23-\x5B\x5D-\x7E]{1,200}( [\x21\x23-\x5B\x5D-\x7E]{1,200}){0,7}$'
        max_age: {type: integer, minimum: 0, maximum: 2147483648, description: The most seconds since the sign-in.}
    DemandedSignIn:
      type: object
      description: The demanded class and age of the sign-in, in the form of `step_up`.
      properties:
        acr_values: {type: string, description: Space-separated; one of them has to be the id_token's `acr`.}
        max_age: {type: integer, minimum: 0, description: The most seconds since the sign-in.}
        presence: {type: boolean, description: 'Whether the call needs the presence key''s proof. Not a member of `POST /v1/logins`, because a sign-in cannot bring it.'}
    StartLogin:
      type: object
      additionalProperties: false
      dependentRequired: {code_challenge_method: [code_challenge], code_challenge: [code_challenge_method]}
      properties:
        provider: {$ref: '#/components/schemas/Name', description: 'Required, unless `step_up` is sent with a session.'}
        client: {$ref: '#/components/schemas/Name', description: May be left out if the provider has one client.}
        step_up: {$ref: '#/components/schemas/StepUp'}
        redirect_uri: {$ref: '#/components/schemas/RedirectURI', description: The client's first one if left out.}
        scope:
          type: string
          description: Space-separated; a part of the client's scope. All of it if left out.
          minLength: 1
          maxLength: 2048
          pattern: '^[\x21\x23-\x5B\x5D-\x7E]+( [\x21\x23-\x5B\x5D-\x7E]+)*$'
        code_challenge:
          type: string
          description: S256 of the app's own verifier; the forward must then bring the `code_verifier`.
          pattern: '^[A-Za-z0-9_-]{43}$'
        code_challenge_method: {type: string, const: S256}
        social_provider:
          type: string
          description: For Zephr, required unless exactly one is configured.
          pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'
        parameters:
          type: object
          description: Added to the authorization request. Names must be in the client's `allowed_parameters`.
          maxProperties: 16
          propertyNames: {pattern: '^[A-Za-z0-9_.-]{1,64}$'}
          additionalProperties: {type: string, maxLength: 1024, pattern: '^[\x20-\x7E]*$'}
        login_token: {$ref: '#/components/schemas/LoginToken'}
    StartedLogin:
      type: object
      required: [login_id, authorization_url, state, expires_at]
      properties:
        login_id: {type: string, pattern: '^lgn_[A-Za-z0-9_-]{22}$'}
        authorization_url: {type: string, format: uri, description: To be opened in the system browser.}
        app_url: {type: string, description: 'To be opened instead if the provider''s own app is on the device (Clever, `app_start`).'}
        state: {type: string, minLength: 1, description: The state of the later callback. The app may compare it; it proves nothing here.}
        expires_at: {$ref: '#/components/schemas/Time'}
        open_by: {$ref: '#/components/schemas/Time', description: 'The last moment to open `authorization_url`, if that is before `expires_at` (a pushed request, RFC 9126). A user who has opened it has until `expires_at`.'}
        login_token: {$ref: '#/components/schemas/LoginToken', description: For bearer clients only; others have it as a cookie.}
    ForwardCode:
      type: object
      description: |
        At least `callback_url`, or `handoff`, or `provider` with `code`, with `id_token`, or with `tokens`.
      additionalProperties: false
      properties:
        callback_url:
          type: string
          description: |
            The whole URL of the provider's return, unchanged. Unknown parameters may be written in any way.
          minLength: 1
          maxLength: 8192
          pattern: '^[^\x00-\x1F\x7F]+$'
        handoff: {$ref: '#/components/schemas/Token'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        code: {$ref: '#/components/schemas/Opaque'}
        id_token:
          type: string
          description: An id_token of a native SDK.
          minLength: 1
          maxLength: 16384
          pattern: '^[\x21-\x7E]+$'
        redirect_uri: {$ref: '#/components/schemas/RedirectURI'}
        code_verifier: {$ref: '#/components/schemas/CodeVerifier'}
        state: {$ref: '#/components/schemas/Opaque', description: Flow B. The value that the app generated and kept.}
        nonce: {$ref: '#/components/schemas/Opaque'}
        scope:
          type: string
          description: |
            Flow B. Space-separated; the scope that the app requested, a part of the client's. It is the session's if the
            provider's answer names none (RFC 6749 section 5.1).
          minLength: 1
          maxLength: 2048
          pattern: '^[\x21\x23-\x5B\x5D-\x7E]+( [\x21\x23-\x5B\x5D-\x7E]+)*$'
        login_token: {$ref: '#/components/schemas/LoginToken'}
        device:
          type: string
          description: The user's name for this device, shown in the list of sessions.
          minLength: 1
          maxLength: 64
          pattern: '^[^\x00-\x1F\x7F]*$'
        tokens: {$ref: '#/components/schemas/ImportedTokens'}
    ImportedTokens:
      type: object
      description: Tokens that the app holds already, for clients with `import_tokens`.
      additionalProperties: false
      required: [access_token]
      properties:
        access_token: {$ref: '#/components/schemas/Opaque'}
        refresh_token: {$ref: '#/components/schemas/Opaque', description: 'For Clover; left out for a token from before its tokens expired, which is then traded for a pair. Clever has none.'}
        merchant_id: {type: string, pattern: '^[A-Za-z0-9]{1,64}$', description: 'For Clover, required.'}
    FinishRegistration:
      type: object
      additionalProperties: false
      required: [provider, state_key, attributes]
      properties:
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        state_key: {$ref: '#/components/schemas/Opaque'}
        attributes:
          type: object
          description: By their names (letters, digits, `_`, `.`, `-`), each a string (to 1024), a number or a boolean.
          maxProperties: 64
          additionalProperties: true
        login_token: {$ref: '#/components/schemas/LoginToken'}
    ForwardOutcome:
      description: |
        The result of a forward: with 201 a session, with 200 the one that was stepped up, with 202 a registration to
        finish. (One type for all of them, because most generators give an operation one type of answer.)
      oneOf:
        - {$ref: '#/components/schemas/NewSession'}
        - {$ref: '#/components/schemas/RegistrationRequired'}
    RegistrationRequired:
      type: object
      required: [outcome, provider, state_key, identifier, expires_at, fields]
      properties:
        outcome: {type: string, const: registration_required}
        provider: {$ref: '#/components/schemas/Name'}
        state_key: {type: string}
        identifier: {type: [string, 'null'], description: The e-mail address that the social provider gave.}
        expires_at: {$ref: '#/components/schemas/Time'}
        fields: {type: array, items: {$ref: '#/components/schemas/RegistrationField'}}
    RegistrationField:
      type: object
      required: [name, type, required]
      properties:
        name: {type: string}
        type: {type: string, description: '`string`, `number` or `boolean`.'}
        required: {type: boolean}

    Identity:
      type: object
      description: |
        The provider's confirmed values: each member is a string, a number, a boolean or a list of strings. `unverified`
        holds values that came only in a callback parameter.
      required: [unverified]
      properties:
        unverified: {type: object, additionalProperties: true}
      additionalProperties: true
    SessionTokens:
      type: object
      description: Facts about the provider's tokens; never the tokens.
      required: [expires_at, refreshable]
      properties:
        expires_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$'}
        refreshable: {type: boolean}
    Session:
      type: object
      description: Never holds a token. Every member is always there.
      required: [handle, version, provider, client, subject, identity, scope, created_at, last_used_at, idle_expires_at, expires_at, tokens, acr, amr, authenticated_at, kind, parent, binding, presence]
      properties:
        handle: {$ref: '#/components/schemas/Handle'}
        version: {type: integer, minimum: 1, description: 'The number of this state. A step-up and a presence key raise it, a refresh does not. Never take a lower one after a higher one, because a replica may answer with a state of some seconds ago. Of two with the same number the later answer is the newer.'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        subject: {type: string, minLength: 1, description: 'With the provider, the account''s key.'}
        identity: {$ref: '#/components/schemas/Identity'}
        scope: {type: array, items: {type: string}, description: Empty when unknown.}
        created_at: {$ref: '#/components/schemas/Time'}
        last_used_at: {$ref: '#/components/schemas/Time'}
        idle_expires_at: {$ref: '#/components/schemas/Time'}
        expires_at: {$ref: '#/components/schemas/Time'}
        tokens: {$ref: '#/components/schemas/SessionTokens'}
        acr: {type: [string, 'null'], description: 'The class of the sign-in, from the id_token; only a sign-in sets it.'}
        amr: {type: array, items: {type: string}, description: 'The methods of the sign-in, from the id_token.'}
        authenticated_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', description: 'The id_token''s `auth_time`; null if the provider does not report it. Never the time of the sign-in here.'}
        kind: {type: [string, 'null'], description: 'A child session''s kind, from the configuration; null for others.'}
        parent: {type: [string, 'null'], pattern: '^ses_[A-Za-z0-9_-]{22}$', description: 'The handle of a child session''s parent; null for others.'}
        binding: {oneOf: [{$ref: '#/components/schemas/SessionBinding'}, {type: 'null'}]}
        presence: {oneOf: [{$ref: '#/components/schemas/SessionPresence'}, {type: 'null'}]}
    BeginHandover:
      type: object
      additionalProperties: false
      required: [origin, challenge]
      properties:
        origin: {type: string, minLength: 1, maxLength: 255, pattern: '^[\x21-\x7E]+$', description: One of the client's `children.web.origins`.}
        path: {type: string, minLength: 1, maxLength: 2048, pattern: '^/[\x21-\x7E]*$', description: 'The page: begins with one `/`; no backslash and no fragment. `/` by default.'}
        challenge: {type: string, pattern: '^[A-Za-z0-9_-]{43}$', description: The base64url SHA-256 of the secret.}
    Handover:
      type: object
      required: [url, expires_at]
      properties:
        url: {type: string, description: 'The web view''s address, to be loaded once the cookie is in its store.'}
        expires_at: {$ref: '#/components/schemas/Time'}
    RedeemHandover:
      type: object
      additionalProperties: false
      required: [ticket, verifier]
      properties:
        ticket: {type: string, pattern: '^[A-Za-z0-9_-]{43}$'}
        verifier: {type: string, minLength: 43, maxLength: 128, pattern: '^[A-Za-z0-9_-]+$', description: The secret of that request's cookie.}
    MakeChild:
      type: object
      additionalProperties: false
      required: [kind, name]
      properties:
        kind: {type: string, minLength: 1, maxLength: 63, pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]*$', description: A kind of the client's `children`.}
        name: {type: string, minLength: 1, maxLength: 32, pattern: '^[a-z0-9-]+$', description: 'Its name within its kind.'}
        device: {type: string, minLength: 1, maxLength: 64, description: The name in lists of sessions.}
        jkt: {type: string, pattern: '^[A-Za-z0-9_-]{43}$', description: 'The thumbprint (RFC 7638) of the child''s own P-256 key; needed of a bound session.'}
    SessionBinding:
      type: object
      description: The key that a bound session belongs to.
      required: [jkt, evidence]
      properties:
        jkt: {type: string, pattern: '^[A-Za-z0-9_-]{43}$', description: The key's thumbprint (RFC 7638).}
        evidence: {type: string, description: 'The evidence that its requests may show: `pass` (or a proof), or `proof`.'}
    SessionPresence:
      type: object
      description: The key that the device uses only with its user.
      required: [jkt, registered_at]
      properties:
        jkt: {type: string, pattern: '^[A-Za-z0-9_-]{43}$', description: The key's thumbprint (RFC 7638).}
        registered_at: {$ref: '#/components/schemas/Time'}
    Pass:
      type: object
      required: [expires_at, expires_in]
      properties:
        expires_at: {$ref: '#/components/schemas/Time'}
        expires_in: {type: integer, minimum: 1, description: Seconds.}
        pass: {type: string, pattern: '^[A-Za-z0-9_-]{32}$', description: For clients with `transport bearer` only.}
    NewSession:
      type: object
      description: A new session; the token for bearer clients alone.
      required: [handle, version, provider, client, subject, identity, scope, created_at, last_used_at, idle_expires_at, expires_at, tokens, acr, amr, authenticated_at, kind, parent, binding, presence]
      properties:
        handle: {$ref: '#/components/schemas/Handle'}
        version: {type: integer, minimum: 1, description: 'The number of this state. A step-up and a presence key raise it, a refresh does not. Never take a lower one after a higher one, because a replica may answer with a state of some seconds ago. Of two with the same number the later answer is the newer.'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        subject: {type: string, minLength: 1, description: 'With the provider, the account''s key.'}
        identity: {$ref: '#/components/schemas/Identity'}
        scope: {type: array, items: {type: string}, description: Empty when unknown.}
        created_at: {$ref: '#/components/schemas/Time'}
        last_used_at: {$ref: '#/components/schemas/Time'}
        idle_expires_at: {$ref: '#/components/schemas/Time'}
        expires_at: {$ref: '#/components/schemas/Time'}
        tokens: {$ref: '#/components/schemas/SessionTokens'}
        acr: {type: [string, 'null'], description: 'The class of the sign-in, from the id_token; only a sign-in sets it.'}
        amr: {type: array, items: {type: string}, description: 'The methods of the sign-in, from the id_token.'}
        authenticated_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', description: 'The id_token''s `auth_time`; null if the provider does not report it. Never the time of the sign-in here.'}
        kind: {type: [string, 'null'], description: 'A child session''s kind, from the configuration; null for others.'}
        parent: {type: [string, 'null'], pattern: '^ses_[A-Za-z0-9_-]{22}$', description: 'The handle of a child session''s parent; null for others.'}
        binding: {oneOf: [{$ref: '#/components/schemas/SessionBinding'}, {type: 'null'}]}
        presence: {oneOf: [{$ref: '#/components/schemas/SessionPresence'}, {type: 'null'}]}
        session_token: {$ref: '#/components/schemas/Token', description: For clients with `transport bearer` only.}
        pass: {$ref: '#/components/schemas/Pass', description: For a bound session whose client's evidence is a pass.}
    ListedSession:
      type: object
      description: One of the user's sessions.
      required: [handle, version, provider, client, subject, identity, scope, created_at, last_used_at, idle_expires_at, expires_at, tokens, acr, amr, authenticated_at, kind, parent, binding, presence, current, device]
      properties:
        handle: {$ref: '#/components/schemas/Handle'}
        version: {type: integer, minimum: 1, description: 'The number of this state. A step-up and a presence key raise it, a refresh does not. Never take a lower one after a higher one, because a replica may answer with a state of some seconds ago. Of two with the same number the later answer is the newer.'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        subject: {type: string, minLength: 1, description: 'With the provider, the account''s key.'}
        identity: {$ref: '#/components/schemas/Identity'}
        scope: {type: array, items: {type: string}, description: Empty when unknown.}
        created_at: {$ref: '#/components/schemas/Time'}
        last_used_at: {$ref: '#/components/schemas/Time'}
        idle_expires_at: {$ref: '#/components/schemas/Time'}
        expires_at: {$ref: '#/components/schemas/Time'}
        tokens: {$ref: '#/components/schemas/SessionTokens'}
        acr: {type: [string, 'null'], description: 'The class of the sign-in, from the id_token; only a sign-in sets it.'}
        amr: {type: array, items: {type: string}, description: 'The methods of the sign-in, from the id_token.'}
        authenticated_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', description: 'The id_token''s `auth_time`; null if the provider does not report it. Never the time of the sign-in here.'}
        kind: {type: [string, 'null'], description: 'A child session''s kind, from the configuration; null for others.'}
        parent: {type: [string, 'null'], pattern: '^ses_[A-Za-z0-9_-]{22}$', description: 'The handle of a child session''s parent; null for others.'}
        binding: {oneOf: [{$ref: '#/components/schemas/SessionBinding'}, {type: 'null'}]}
        presence: {oneOf: [{$ref: '#/components/schemas/SessionPresence'}, {type: 'null'}]}
        current: {type: boolean}
        device: {type: [string, 'null']}
    AdminSession:
      type: object
      description: A session in the operators' view.
      required: [handle, version, provider, client, subject, identity, scope, created_at, last_used_at, idle_expires_at, expires_at, tokens, acr, amr, authenticated_at, kind, parent, binding, presence, device, sender_constrained, ended_at, reason]
      properties:
        handle: {$ref: '#/components/schemas/Handle'}
        version: {type: integer, minimum: 1, description: 'The number of this state. A step-up and a presence key raise it, a refresh does not. Never take a lower one after a higher one, because a replica may answer with a state of some seconds ago. Of two with the same number the later answer is the newer.'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        subject: {type: string, minLength: 1, description: 'With the provider, the account''s key.'}
        identity: {$ref: '#/components/schemas/Identity'}
        scope: {type: array, items: {type: string}, description: Empty when unknown.}
        created_at: {$ref: '#/components/schemas/Time'}
        last_used_at: {$ref: '#/components/schemas/Time'}
        idle_expires_at: {$ref: '#/components/schemas/Time'}
        expires_at: {$ref: '#/components/schemas/Time'}
        tokens: {$ref: '#/components/schemas/SessionTokens'}
        acr: {type: [string, 'null'], description: 'The class of the sign-in, from the id_token; only a sign-in sets it.'}
        amr: {type: array, items: {type: string}, description: 'The methods of the sign-in, from the id_token.'}
        authenticated_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', description: 'The id_token''s `auth_time`; null if the provider does not report it. Never the time of the sign-in here.'}
        kind: {type: [string, 'null'], description: 'A child session''s kind, from the configuration; null for others.'}
        parent: {type: [string, 'null'], pattern: '^ses_[A-Za-z0-9_-]{22}$', description: 'The handle of a child session''s parent; null for others.'}
        binding: {oneOf: [{$ref: '#/components/schemas/SessionBinding'}, {type: 'null'}]}
        presence: {oneOf: [{$ref: '#/components/schemas/SessionPresence'}, {type: 'null'}]}
        device: {type: [string, 'null']}
        sender_constrained:
          type: [string, 'null']
          description: >-
            The means by which the provider has bound its tokens, so that a copy opens nothing: `dpop` (RFC 9449), `mtls`
            (RFC 8705). Null if they are not bound, and once the session has ended. A child has its parent's.
        ended_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$'}
        reason: {oneOf: [{$ref: '#/components/schemas/EndReason'}, {type: 'null'}]}
    HowManyEnded:
      type: object
      required: [ended]
      properties:
        ended: {type: integer, minimum: 0}
        unreadable: {type: integer, minimum: 0, description: 'With `binding=none`; sessions that the broker cannot open now, so they stay.'}
        next_cursor: {type: [string, 'null'], description: With `binding=none`; if it is a string there may be more.}
    LogOutPage:
      type: object
      required: [logout_url]
      properties:
        logout_url:
          type: [string, 'null']
          format: uri
          description: |
            `end_session` with `client_id` and, if the client has one, `post_logout_redirect_uri` and a fresh `state`. The
            app compares that state when it is opened again. Never an id_token.
    HandedOutToken:
      type: object
      required: [access_token, token_type, expires_at, scope]
      properties:
        access_token: {type: string, minLength: 1}
        token_type: {type: string, description: '`Bearer`.'}
        expires_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$'}
        scope: {type: array, items: {type: string}}
    SessionList:
      type: object
      required: [items, next_cursor]
      properties:
        items: {type: array, items: {$ref: '#/components/schemas/ListedSession'}}
        next_cursor: {type: [string, 'null']}
    AdminSessionList:
      type: object
      required: [items, next_cursor]
      properties:
        items: {type: array, items: {$ref: '#/components/schemas/AdminSession'}}
        next_cursor: {type: [string, 'null']}

    ProviderList:
      type: object
      required: [items]
      properties:
        items: {type: array, items: {$ref: '#/components/schemas/Provider'}}
    Provider:
      type: object
      required: [name, kind, display_name, clients]
      properties:
        name: {$ref: '#/components/schemas/Name'}
        kind: {$ref: '#/components/schemas/ProviderKind'}
        display_name: {type: string}
        clients: {type: array, minItems: 1, items: {$ref: '#/components/schemas/ProviderClient'}}
    ProviderClient:
      type: object
      required: [name, login, transport, pkce, redirect_uris, scope, binding]
      properties:
        name: {$ref: '#/components/schemas/Name'}
        login: {type: string, description: 'The starter of its logins: `broker`, `app` or `both`.'}
        transport: {type: string, description: '`cookie` or `bearer`.'}
        pkce: {type: string, description: '`required` or `unsupported`.'}
        redirect_uris: {type: array, items: {type: string}}
        scope: {type: array, items: {type: string}}
        binding: {$ref: '#/components/schemas/ClientBinding'}
        social_providers: {type: array, items: {type: string}, description: Zephr only.}
    ClientBinding:
      type: object
      required: [mode, evidence]
      properties:
        mode: {type: string, description: '`off`, `observe`, or `enforce`: sign-ins have to prove a key.'}
        evidence: {type: string, description: '`pass` or `proof`.'}
    ProviderKind: {type: string, description: '`oidc`, `oauth2`, `clever`, `clover`, `zephr`; more may come.'}
    BreakerState:
      type: string
      description: |
        The provider's circuit breaker. `closed` is good, its calls go through. `open` means that they do not, after
        failures. `half_open` means that one call is tried. `unknown` means that the provider has no breaker.
    ProviderState:
      type: object
      required: [name, kind, breaker, issuer, failures_in_a_row]
      properties:
        name: {$ref: '#/components/schemas/Name'}
        kind: {$ref: '#/components/schemas/ProviderKind'}
        breaker: {$ref: '#/components/schemas/BreakerState'}
        issuer: {type: string}
        failures_in_a_row: {type: integer, minimum: 0}
    Readiness:
      type: object
      required: [status]
      properties:
        status: {type: string, description: '`ready`, `store_unavailable`, `store_rights_missing`, `keys_do_not_fit` or `shutting_down`.'}
        store: {type: string, description: '`ok` or `unavailable`.'}
        disk: {type: string, description: 'Of the store, `ok` or `full`. Full: sign-ins are refused, sessions are served and ended; it does not count.'}
        endings_file: {type: string, description: 'With `store.endings_file`: `ok`, or the reason of its failure. Log-outs are then in force and answered with 503; it does not count.'}
        keys: {type: string, description: 'Whether the key ring opens a sample of the stored rows: `ok` or `do_not_open_the_store`.'}
        clock_ahead_seconds: {type: integer, description: "The seconds that the clock is ahead of the database's, if that has one; beyond a minute it is not believed."}
        problems: {type: array, items: {type: string}, description: 'The faults, a sentence each, for people.'}
        providers:
          type: object
          description: '`ok`; `failing`: the last calls failed, or were answered 5xx; `open`: the breaker refuses calls; `unknown`. It does not count.'
          additionalProperties: {type: string, description: '`ok`, `failing`, `open` or `unknown`.'}
        certificates:
          type: array
          description: 'The certificates that clients show to their provider, if there are any. They do not count.'
          items: {$ref: '#/components/schemas/CertificateState'}

    CertificateState:
      type: object
      required: [provider, client, not_after, days_left]
      properties:
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        not_after: {type: string, format: date-time, description: 'The expiry of the first certificate of its chain.'}
        days_left: {type: integer, description: 'Whole days until then; below zero after the expiry.'}

    KeyState:
      type: object
      required: [id, use, seals_from, values]
      properties:
        id: {type: string}
        use: {type: string, description: '`seals`, `opens`, `waits` or `missing`.'}
        seals_from: {type: [string, 'null'], format: date-time, description: 'The time from which it seals, while it waits.'}
        values: {type: integer, minimum: 0, description: The number of stored values that need it.}
    ResealProgress:
      type: object
      required: [state, key, total, seen, resealed, unopened]
      properties:
        state: {type: string, description: '`idle`, `running`, `elsewhere` (another replica does it) or `done`.'}
        key: {type: [string, 'null'], description: The key that it seals with.}
        total: {type: integer, minimum: 0, description: The number of values at its beginning.}
        seen: {type: integer, minimum: 0}
        resealed: {type: integer, minimum: 0}
        unopened: {type: integer, minimum: 0, description: 'Values that do not open with this ring, and stay unchanged.'}

    Introspection:
      type: object
      required: [active]
      description: For a token that opens no session, `active` alone; else every member.
      properties:
        active: {type: boolean}
        sub: {type: string}
        iss: {type: string}
        client_id: {type: string, description: '`<provider>/<client>`.'}
        scope: {type: string}
        exp: {type: integer}
        iat: {type: integer}
        sid: {$ref: '#/components/schemas/Handle'}
        acr: {type: string, description: 'The class of the sign-in, if the provider reports it (RFC 9470 section 6.2).'}
        auth_time: {type: integer, description: 'The time of the sign-in, if the provider reports it.'}
        kind: {type: string, description: 'The kind of a child session; only for such a session.'}
        parent: {$ref: '#/components/schemas/Handle', description: 'The parent of a child session; only for such a session.'}
        token_type: {type: string, description: '`DPoP`; only for a bound session.'}
        cnf: {type: object, required: [jkt], properties: {jkt: {type: string}}, description: 'The key of a bound session (RFC 9449 section 6.2).'}
        code: {type: string, description: 'Why a bound session is not shown: `proof_required`, `use_dpop_nonce` or `proof_invalid`.'}
        reason: {type: string, description: 'The fault of a proof or pass.'}
    ExchangedToken:
      type: object
      required: [access_token, issued_token_type, token_type]
      properties:
        access_token: {type: string, minLength: 1}
        issued_token_type: {type: string, description: '`urn:ietf:params:oauth:token-type:access_token`.'}
        token_type: {type: string, description: '`Bearer`, or `DPoP` for a token that goes out with `dpop_proof`.'}
        dpop_proof: {type: string, description: 'The proof of the one named request, for its header `DPoP`.'}
        expires_in: {type: integer, minimum: 0, description: Left out when unknown.}
        scope: {type: string}
    OAuthError:
      type: object
      required: [error, error_description, code]
      properties:
        error:
          type: string
          description: |
            A word of OAuth's: `invalid_request`, `invalid_client`, `invalid_grant`, `unauthorized_client`,
            `unsupported_grant_type`, `invalid_scope`, `invalid_target`, `access_denied`, `insufficient_user_authentication`,
            `server_error`, `temporarily_unavailable`.
        error_description: {type: string}
        code: {$ref: '#/components/schemas/ProblemCode'}
        errors: {type: array, minItems: 1, items: {$ref: '#/components/schemas/FieldFault'}}
        acr_values: {type: string, description: 'With `insufficient_user_authentication`: one of these words has to be the `acr`.'}
        max_age: {type: integer, minimum: 0, description: 'With `insufficient_user_authentication`: the most seconds since the sign-in.'}

    Problem:
      type: object
      required: [type, title, status, code, detail, request_id]
      properties:
        type: {type: string, pattern: '^urn:coatcheck:problem:[a-z_]+$'}
        title: {type: string}
        status: {type: integer, minimum: 400, maximum: 599}
        code: {$ref: '#/components/schemas/ProblemCode'}
        detail: {type: string, description: For a developer. Never holds input.}
        request_id: {type: string, pattern: '^req_[A-Za-z0-9_-]{11}$'}
        errors: {type: array, minItems: 1, items: {$ref: '#/components/schemas/FieldFault'}}
        reason: {type: string, description: 'With `session_ended` the reason of the end, as in `EndReason`: `logged_out`, `logged_out_elsewhere`, `replaced`, `idle_expired`, `expired`, `token_expired`, `grant_revoked`, `refresh_lost`, `subject_changed`, `provider_logout`, `parent_ended`, `admin`, `session_limit` or `integrity`. With `proof_invalid` `malformed`, `algorithm`, `method`, `address`, `token`, `key`, `replayed`, `signature` or `pass`. With `presence_invalid` the same except `pass`, and `nonce`. With `step_up_failed` `upstream`: the session already meets the upstream''s challenge.'}
        retry: {type: string, description: '`new_login`: the same code is useless now; start a new login.'}
        login: {$ref: '#/components/schemas/StartedLogin'}
        step_up: {$ref: '#/components/schemas/DemandedSignIn', description: 'With `step_up_required`: the `step_up` for `POST /v1/logins`. With `presence_required`: `{"presence": true}`.'}
        parent: {type: boolean, description: 'With `step_up_required` for a child session: its parent steps up, and makes a new one. With `presence_required`: its parent makes the call itself.'}
        required: {$ref: '#/components/schemas/DemandedSignIn', description: 'With `step_up_failed`: the demand.'}
        got:
          type: object
          description: 'With `step_up_failed`: the sign-in''s own values; left out if unknown.'
          required: [acr, authenticated_at]
          properties:
            acr: {type: [string, 'null']}
            authenticated_at: {type: [string, 'null'], format: date-time}
        provider_error:
          type: string
          maxLength: 64
          pattern: '^[a-z_]+$'
          description: The provider's own error, if it is a word that RFC 6749 or OpenID Connect define.
    FieldFault:
      type: object
      required: [pointer, code]
      properties:
        pointer: {type: string, description: 'A JSON pointer into the body, or the name of a form field, query parameter or header.'}
        code: {type: string, description: '`required`, `unknown`, `duplicate`, `wrong_type`, `too_long`, `too_short`, `malformed`, `not_allowed` or `conflict`.'}
    ProblemCode:
      type: string
      description: |
        The failure, for programs. More codes may come with a minor version: use `status` for an unknown one.
        `invalid_request`, `invalid_callback`, `state_mismatch`, `issuer_mismatch`, `code_rejected`, `verifier_mismatch`,
        `registration_rejected`, `session_required`, `session_ended`, `backend_unauthorized`, `proof_required`,
        `use_dpop_nonce`, `proof_invalid`, `step_up_required`, `presence_required`, `presence_invalid`, `login_not_yours`,
        `access_denied`, `client_not_allowed`, `backend_not_allowed`, `email_domain_denied`, `cross_origin`,
        `upstream_not_allowed`, `step_up_failed`, `not_found`, `provider_not_found`, `upstream_not_found`,
        `method_not_allowed`, `request_timeout`, `code_already_used`, `user_already_exists`, `login_required`,
        `interaction_required`, `not_refreshable`, `too_many_sessions`, `other_session`, `subject_mismatch`,
        `login_expired`, `state_key_expired`, `handoff_expired`, `handover_expired`, `too_large`,
        `unsupported_media_type`, `wrong_host`, `rate_limited`, `headers_too_large`, `internal_error`, `provider_error`,
        `identity_rejected`, `upstream_error`, `upstream_timeout`, `provider_unavailable`, `store_unavailable`,
        `upstream_busy`, `upstream_nonce`, `shutting_down`.
    EndReason:
      type: string
      description: |
        Why a session ended; more may come with a minor version. `logged_out`; `logged_out_elsewhere` (from another
        device); `replaced` (a new login by the same device); `idle_expired`; `expired`; `token_expired` (the tokens died
        and cannot be refreshed); `grant_revoked` (according to the provider); `refresh_lost` (the provider rotated the
        token and its answer was lost); `subject_changed` (a refresh came back for another user); `provider_logout`
        (Back-Channel Logout); `parent_ended` (of a child: its parent ended); `admin`; `session_limit`; `integrity` (the
        stored row was changed).

  examples:
    Session:
      value:
        handle: ses_3f9cT0m7bq3yqk0W8bJ1kQ
        version: 1
        provider: clover
        client: ios
        subject: MFAKE00000001
        identity: {name: Example Coffee, unverified: {employee_id: EFAKE00000001}}
        scope: []
        created_at: '2026-11-20T21:00:00Z'
        last_used_at: '2026-11-20T21:00:00Z'
        idle_expires_at: '2026-12-20T21:00:00Z'
        expires_at: '2027-02-18T21:00:00Z'
        tokens: {expires_at: '2026-11-20T22:00:00Z', refreshable: true}
        acr: null
        amr: []
        authenticated_at: null
        kind: null
        parent: null
        binding: null
        presence: null

"""##
}
