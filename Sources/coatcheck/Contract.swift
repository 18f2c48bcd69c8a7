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

    - Bodies are JSON in UTF-8, names are in `snake_case`, and times are RFC 3339 in UTC with whole seconds. The broker
      ignores `Accept` and never answers 406, because each resource has one representation.
    - The broker parses request bodies strictly, and accepts at most 64 KiB. One `invalid_request` names all faults
      together in `errors`: unknown and missing members, members that occur twice, and members of the wrong type.
    - Every error is an RFC 9457 problem document with a stable `code`; `docs/problems.md#<code>` has the advice for each.
      The description of each answer lists its codes. (`/v1/introspect` and `/v1/token` use OAuth's error format instead.)
    - A path that this file does not list is answered 404 `not_found`. The same answer goes to a path with an empty
      segment, a trailing slash or, outside the relay, a percent sign. A method that this file does not list for its path
      is answered 405 `method_not_allowed` with `Allow`.
    - HEAD is answered like GET, without the body, and changes nothing. OPTIONS is answered for the origins that
      `session.allowed_origins` lists.
    - A request with ambiguous framing (RFC 9112) is answered 400 `invalid_request`, and the connection closes.
    - An answer 503 always has `Retry-After` and never clears a cookie.
    - Every answer has `X-Request-Id`, the security headers listed under `components/headers`, and
      `Cache-Control: no-store`. Only the public files (this one and the app association files) may be cached.
    - The app sends the session token as the cookie `__Host-coatcheck`. A client with `transport: bearer` sends it as
      `Authorization: Bearer`. A request with both must name the same session twice, or it is answered 400. Two values
      for one cookie name are answered 400.
    - If `server.public_url` is plain http (development), the cookies are called `coatcheck`, `coatcheck-login` and
      `coatcheck-pass` and lack `Secure`.
    - **Bound sessions.** If a client has `binding`, each of its sessions belongs to a key that never leaves the device.
      Such a session needs evidence in addition to its token on every operation that takes a session, except
      `DELETE /v1/session`. The evidence is a proof, or a pass if the client's `evidence` is `pass`. If a request has
      both, only the proof is checked. For unbound sessions the broker ignores proofs.
    - A proof is the header `DPoP` (RFC 9449 section 4.2; `ES256`). `htu` is the address of `public_url` and the path,
      and `nonce` comes from the broker. `ath` is the digest of the session token, and the three sign-in operations do
      not check it. The broker never checks `iat`.
    - A pass is the cookie `__Host-coatcheck-pass`, or `Coatcheck-Pass` for bearer clients. `Authorization: DPoP` has the
      same meaning as `Bearer`; neither scheme is evidence.
    - If evidence is missing, the answer is 401 `proof_required`, `use_dpop_nonce` or `proof_invalid`, with `DPoP-Nonce`
      and `Coatcheck-Code`. This 401 clears no cookie. It does not mean that the session has ended.
    - **Presence.** A bound session may have a second key, which the device's system uses only after its user has agreed
      (`PUT /v1/session/presence-key`). A call that needs presence (`require: {presence: true}`) also needs a proof by
      that key over the same request.
    - The proof of presence is exactly one header `Coatcheck-Presence`, in the form of `DPoP` (`typ` `dpop+jwt`, `ES256`,
      `htm`, `htu`, `jti`, `iat`, `nonce`, and always `ath`). Both proofs may have the same nonce. The proofs do not cover
      the body and the query of a request.
    - A proof of presence may use any valid `DPoP-Nonce`, from any replica and for every method. The broker checks the
      nonce again when it uses the proof up. Over all replicas a proof can be used once. A session can use 30 such proofs
      in a minute.
    - A missing or bad proof of presence is answered 401 `presence_required` or `presence_invalid`, with `DPoP-Nonce` and
      `Coatcheck-Code`. The session and its cookie stay, and the user does not have to sign in again.
    - **Cross-origin rule.** This rule applies to unsafe methods, and to every method of the relay and the event stream,
      if the request carries the broker's cookie or no credential. `Sec-Fetch-Site`, if present, must be `same-origin` or
      `none`. If it is absent, an `Origin`, if present, must be the broker's own. An `Origin` that
      `session.allowed_origins` lists always passes. Any other request is answered 403 `cross_origin`.
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
      The operator's services use these operations to ask about a session. They use the public listener, or a separate
      listener if `server.backend_listen` is set. The separate listener has only these operations, and the public
      listener then answers them 404. Only on the separate listener, a TCP peer that `backends.NAME.peers` lists needs no
      credential, and the listener's own address is accepted as a `Host`, too.
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

        If the request has a proof, the login is bound to the proof's key, and only that key can finish the login. A client
        with `binding: {mode: enforce}` has to send a proof.

        With `step_up` the user has to sign in as `step_up` demands. If the request also presents a session, the login
        steps up that session. (A bound session needs a proof; a pass is not enough.) The login's forward needs the login
        token and the session, and the answer is 200 with the same session. In this case `provider` and `client` are the
        session's, and the request may leave them out. The login asks for the session's scope.
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
            for, or a child session makes the call. `step_up_failed`: the demands of `step_up` and the demands that are
            configured for every sign-in have no class in common. `cross_origin`: see the cross-origin rule.
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
        The body has one of these forms:

        - `{callback_url}`: the whole URL with which the provider returned to the app (flow A). The app sends the login
          token as the cookie or as `login_token`.
        - `{handoff}`: the one-time value that the hosted callback passed to the app (flow C).
        - `{provider, client, code | callback_url, …}`: a login that the app started itself (flow B), for clients with
          `login: app` or `both`.
        - `{provider, client, code, login_token, nonce}`: a code from a native SDK, for clients with `native_code: true`.
        - `{provider, client, id_token, nonce}`: an id_token of a native SDK (Google's Credential Manager, Sign in with
          Apple, Facebook's Limited Login), for clients with `native_code: true`. The broker verifies it like an id_token
          from the token endpoint. Its `aud` is the client id or one of the client's `trusted_audiences`. The nonce is
          required, and the id_token has it raw or as SHA-256.
        - `{provider, client, tokens}`: tokens that the app already holds, for clients with `import_tokens: true`.

        A session that is made from an id_token has no tokens of the provider's: `tokens` is
        `{expires_at: null, refreshable: false}` and `scope` is empty. A refresh of this session is refused with
        `not_refreshable`, a relayed call with `upstream_not_allowed`, `POST /v1/session/token` with
        `client_not_allowed`, and `POST /v1/token` with `invalid_target`. With `login_token` the app can repeat the
        request.

        One code makes at most one call at the provider, and one id_token makes at most one session. For 10 minutes the
        same starter (same `login_token`, else same `code_verifier`) gets the same session with the same cookie. Any
        other caller gets `code_already_used`. If the request also presents a session, that session ends with the reason
        `replaced`.

        The forward of a step-up's login (`step_up`) has to present the session that is stepped up. The broker checks this
        before the code is spent. Without a session the answer is `session_required`, and with another session
        `login_not_yours`. On success the answer is 200 with the same session. A failure leaves the session unchanged.
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
            The presented session is stepped up, and keeps its handle and token. The cookie is set again only to renew its
            `Max-Age`. For 10 minutes the same starter gets the session again, in its state at the time of the repeat.
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
            `invalid_request`; `invalid_callback` (the URL is not a callback of this login: it has the wrong target, a
            parameter twice, or no code); `state_mismatch` (no login has this state); `issuer_mismatch` (the issuer is
            not the expected one, RFC 9207); `code_rejected` (the provider refused
            the code, or the id_token or the imported token is not for this client); `verifier_mismatch` (the
            `code_verifier` does not fit the challenge, PKCE).
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
            `login_not_yours` (another starter began the login, and the login is invalid from now on); `access_denied`
            (the user refused);
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
            `code_already_used` (by another starter); `login_required` (the callback has no state, or it is unknown
            whether the code was used; the problem has a new `login` if the broker could start one);
            `interaction_required` (the provider
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
            `login_expired` (the login is older than 10 minutes); `handoff_expired` (the handoff is older than 60
            seconds, or used); `state_key_expired`.
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
        Lists the sessions of this session's subject at this provider. The children of a session follow their parent in
        the list. The call does not extend the idle time.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      parameters:
        - {$ref: '#/components/parameters/Cursor'}
      responses:
        '200':
          description: A page of sessions, newest first. A session and its children count as one item for the page's size.
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
        Sends the missing attributes to Zephr with the `state_key`, and makes a session from Zephr's answer. A state key
        is valid for 15 minutes and can be used once. After `registration_rejected` the app may correct the attributes
        once. If the same starter repeats the request with the same attributes within 10 minutes, the answer has the same
        session.
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
      description: Returns the session that the request presents. The call does not extend the idle time.
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
        The session ends at the broker at once, and the broker revokes the session's tokens in the background. If the
        provider has `end_session`, the broker also ends the provider's own session in the background. The answer is 204
        with or without a session.

        With `logout_url=true` the answer is 200 with the address of the provider's log-out page. The app opens this page
        in the user's browser, and the broker does not call `end_session` itself. The address is null if the request has
        no session, or if the session had already ended. It is also null if the provider has no such page, or if the
        broker did not get the page's address in time.
      security: [{}, {sessionCookie: []}, {sessionBearer: []}]
      parameters:
        - name: logout_url
          in: query
          description: Asks for the address of the provider's log-out page.
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
        Only clients with `hand_out_access_token: true` may call this. The broker refreshes the access token first if
        needed, and never returns the refresh token. The call extends the session's idle time. A Zephr session has no
        access token. A bound session needs a proof and not only a pass, because the access token lives longer than a
        pass.
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
        The pass is valid for some minutes (`binding: {pass}`), on every replica. Clients with cookies get it as the
        cookie `__Host-coatcheck-pass`. Bearer clients get it as `pass`, and send it as `Coatcheck-Pass`. To renew the
        pass, the app needs a new proof. An expired pass counts as no pass.
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
      summary: Register the presence key, which the device uses only after its user has agreed.
      description: |
        Only a bound session that is not a child can have a presence key. The request needs a proof by the session's key
        (a pass is not enough) and, in `Coatcheck-Presence`, a second proof by the new key. The second proof covers the
        same method, address and session token (`ath`). It needs a nonce from the broker, which may be the nonce of the
        first proof. The request has no body.

        The call has to come within ten minutes of `authenticated_at`. A later call is answered 401 `step_up_required`
        with `step_up: {max_age: 600}`, or 403 `step_up_failed` if the provider is unable to step up in this way.

        A session can have only one presence key in its life. If the app registers the same key again, the answer is 200
        at any time, so the app can repeat the call after a lost answer. Another key, and the session's own key, are
        answered 401 `presence_invalid` with the reason `key`. If the device loses the presence key, the user has to sign
        in again.

        The answer is the session with its new `version`. The app should keep this session object, because another replica
        may answer with the former state for a second. Event streams send `session.presence_key_changed`.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        '200':
          description: The session with its presence key. The key is new, or was registered before.
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
      summary: Make a child session for a widget, a watch or an extension.
      description: |
        Only clients with `children` may call this. A child has no tokens of the provider's. The relay and the exchange use
        its parent's tokens, so one refresh serves all of them. The child's kind lists its rights (`upstreams`,
        `backends`). A child ends with its parent (`parent_ended`). It may end earlier, but never lives longer than its
        parent.

        `kind` and `name` together are the child's place, and a session has 16 places. If the place has a child already,
        the new child ends the former child (`replaced`). So a caller that got no answer can repeat the call.

        The child's token always comes in the body, and the child sends it as `Authorization: Bearer`, for every transport
        of the client. If the session is bound, the call needs a proof (not a pass) and `jkt`; without `jkt` the answer is
        400 with the pointer `/jkt`. The child belongs to the key of `jkt`, and proves this key at its first use. A child
        with a wrong `jkt` is useless.

        If a child makes this call, the answer is 403 `client_not_allowed`. A child gets the same answer from
        `/v1/session/token`, `/v1/session/refresh` and `/v1/sessions`.
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
      summary: Get a ticket that signs the user in to the app's own web view.
      description: |
        Only clients with `children: {web}` may call this, for a page at one of its `origins`. The app makes a secret (43
        to 128 base64url characters) and sends the secret's base64url SHA-256 as `challenge`. It puts the secret as the
        cookie `__Host-coatcheck-handover` (`Secure; HttpOnly; Path=/; SameSite=Strict; Max-Age=60`) into the web view's
        cookie store for the page's origin. When the cookie is in the store, the app loads `url` in the web view. The
        address is useless without the cookie, so a system browser or a frame cannot use it.

        If the page is at the broker's own origin, `url` is `/handover/{ticket}` at the broker. If the page is elsewhere,
        `url` is the page with `?handover={ticket}`, and the page's backend redeems the ticket
        (`POST /v1/handovers/redeem`). A ticket is valid for 60 seconds, and a session can get eight tickets in that time.
        A bound session needs a proof, not a pass.
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
        Over all replicas, at most one refresh of a session is in progress at a time. Callers that come during a refresh
        get its result. The session's own cookie does not change.

        In two cases the broker does not call the provider, and answers with the stored session. The first case is a call
        within a minute after a refresh that an app or an upstream has forced. The second case is a session that another
        replica has just refreshed.
      security: [{sessionCookie: []}, {sessionBearer: []}]
      responses:
        '200': {$ref: '#/components/responses/Session'}
        '400': {$ref: '#/components/responses/InvalidRequest'}
        '401': {$ref: '#/components/responses/NoSession'}
        '403': {$ref: '#/components/responses/NotForChildren'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '409':
          description: '`not_refreshable`: the provider gave no refresh token, so the session ends when its access token expires.'
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
        The first event is `session` with the session object. These events may follow:

        - `tokens_refreshed`: the tokens were refreshed. If another replica refreshed, this event may also come for an
          access token of another API.
        - `session.presence_key_changed`: the app should read the session again for its `presence`.
        - `session_ended` with `{"reason": …}`: the session has ended, and the stream closes after this event.

        On every replica the stream ends within a second of the session's end, also if the session lapsed. A comment every
        25 seconds keeps the stream open. The broker does not repeat events, because after a reconnect the first event has
        the present state.

        A session can have eight streams at a time. A subject at one client can have twice as many streams as sessions. A
        child can have four streams of its own, and also receives the events of its parent's refreshes. One stream more
        ends the oldest stream, without an event. The cross-origin rule applies.
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
      description: The call changes nothing, and the page names no user. Refusals are small HTML pages, unless `Accept` asks for problem documents.
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
          description: '`handover_expired`: the ticket is too old, unknown, or of another origin, or its session has ended.'
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
          description: '`rate_limited`: the address has sent too many unknown tickets.'
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
        The browser sends the secret in the cookie `__Host-coatcheck-handover`. The call spends the ticket and redirects
        the browser to the page. It sets the cookie `__Host-coatcheck-web` with a session of kind `web`; the app's cookie
        stays. During the ticket's 60 seconds the same secret gets the same session. The request must be same-origin,
        which `Sec-Fetch-Site` or the broker's own `Origin` has to show. `Origin: null` is refused.
      security: [{}]
      responses:
        '303':
          description: A redirect to the page.
          headers:
            X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
            Cache-Control: {$ref: '#/components/headers/No-Store'}
            Location: {required: true, schema: {type: string}}
            Set-Cookie: {required: true, schema: {type: string}}
        '400':
          description: '`verifier_mismatch`: the secret is missing, belongs to another ticket, or is shorter than 43 characters. The ticket is not spent. `invalid_request`: the request is malformed.'
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
          description: '`other_session`: the browser has a living session of another user. The ticket is not spent. `too_many_sessions`: all places of the family are taken.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            text/html: {schema: {type: string}}
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '410':
          description: '`handover_expired`: the ticket is too old, unknown, or of another origin, or its session has ended.'
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
          description: '`rate_limited`: the address has sent too many unknown tickets or wrong secrets.'
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
      used. Generated clients percent-encode the slashes of a path parameter, and the relay answers that with 400.
      Therefore build this URL by hand. Dot segments in any encoding, `%2f`, `%5c`, `%00`, `\`, `;`, `//` and invalid
      UTF-8 in `{path}` are answered 400, too. The cross-origin rule applies to every method.

      *Header fields.* The relay passes the upstream's answer on, without some fields. It drops hop-by-hop fields, the
      fields that `Connection` names, `Set-Cookie`, `WWW-Authenticate`, `Clear-Site-Data`, `Strict-Transport-Security`,
      `Alt-Svc`, `Access-Control-*`, `Server`, `X-Auth-*`, `X-Forwarded-*`, `X-Coatcheck-*`, `Coatcheck-*`. It also drops
      fields that set policy for the broker's origin (`NEL`, `Report-To`, `*-Report-Only`, `Accept-CH`,
      `Permissions-Policy` and similar fields). The relay passes `X-Accel-Buffering` on if its value is `no` or `yes`, and
      adds `no` to other event streams. It ignores an offer of `h2c` in `Upgrade`, and answers any other upgrade with 400.

      *Caches and redirects.* If the upstream's answer has no `Cache-Control`, the relay sets `private, no-store`. If it
      has one, the relay adds `private` and `Vary: Cookie, Authorization`, unless the field has `public` or `s-maxage`.
      `Coatcheck-Source` names the author of the answer. The relay passes an upstream's redirect on and does not follow
      it. If a `Location` or `Content-Location` is under the upstream's base URL, the relay replaces it by its path at the
      relay. An absolute address elsewhere stays. The relay drops every other value of these two fields.

      *Limits.* Bodies stream in both directions. If the app sends its body too slowly, the answer is 408
      (`limits.relay_minimum_rate`, `limits.relay_upload_deadline`). The calls of one user may take a quarter of an
      upstream's places, and the calls of one session half of that. If a user or session already has its share, the answer
      is 429. If all places are taken, the answer is 503.

      *Tokens.* If the upstream answers 401, the broker refreshes the token once and, if it can replay the body, repeats
      the call once. If the upstream answers 401 again, the app gets that answer, and the session goes on. An upstream may
      have an access token of its own (`upstreams.NAME.token`). If the provider refuses to give this token, the answer is
      502 `provider_error`. If the session has no way to ask for this token, the answer is 403.

      *Sign-in.* The operator's `require` or an upstream's own challenge (RFC 9470) may demand a stronger or more recent
      sign-in. The answer is then 401 `step_up_required`. If the session already meets the upstream's challenge, the
      answer is 403 `step_up_failed` with the reason `upstream`.

      *Presence.* A call may need presence (`require: {presence: true}`). If `Coatcheck-Presence` is missing, or the
      session has no presence key, the answer is 401 `presence_required`. If the proof is not accepted, the answer is 401
      `presence_invalid`. An unbound session gets 403 `step_up_failed`.

      The relay checks the proof of presence last, and uses it up just before the call goes out. If the app streams a
      body, this happens at the beginning of the stream. The proof never goes to the upstream. If the upstream was surely
      not reached, the app may send the same proof again while its nonce is valid. The same holds if the upstream refused
      the call with a 401 and the relay answers with a problem of its own.

      *The session's end* also ends an answer in progress. An event stream without a length ends within a second, and
      looks like a complete answer. Any other answer is cut after five seconds. A relayed call that carries bytes extends
      the session's idle time, unless the call came with a web page's cookie.
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
        The broker takes the session token from the cookie, or else from `X-Coatcheck-Session`. If the caller proved itself
        by `X-Coatcheck-Backend` or as a peer on the backends' own listener, the third choice is `Authorization: Bearer`.
        The answer depends only on the session. The broker ignores headers with the original URI. The exception is the
        proof of a bound session, at a backend with `original_request: true`. The proxy passes a bound session's pass on as
        the app sent it.

        A child session passes only if its kind names this backend; otherwise the answer is 403 `backend_not_allowed`. The
        call extends the session's idle time, and for a child also the idle time of its parent. The proxy must treat any
        failure as a refusal, because the broker never answers with a redirect.

        `acr` and `max_age` in the query are the proxy's own demands on the sign-in, in addition to the demands of
        `backends.NAME.require`. If the session does not meet them, the answer is 401 `step_up_required`. They are accepted
        from every caller, because they can only make the check stricter. A query with other, doubled or malformed
        parameters is refused (403 `backend_not_allowed`).

        `presence=1` demands a proof of presence over the original request. The proxy passes it on in `Coatcheck-Presence`
        as the app sent it, and this call uses it up. The backend needs `original_request: true`, and the proxy has to
        send method and URL; otherwise the answer is 403 `backend_not_allowed`.
      parameters:
        - {name: acr, in: query, schema: {type: string, minLength: 1, maxLength: 1608}, description: 'Words with spaces between them. The session''s `acr` has to be one of them.'}
        - {name: max_age, in: query, schema: {type: integer, minimum: 60, maximum: 2147483648}, description: The largest allowed number of seconds since the sign-in.}
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
            `session_required`, `session_ended` with its reason, or `backend_unauthorized`. For a bound session also
            `proof_required`, `use_dpop_nonce` or `proof_invalid`, which do not mean that the session has ended. If the
            call has a demand also `step_up_required`, `presence_required` or `presence_invalid`.
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
        The call extends the idle time only for a backend with `slides: true`. A caller may send its credential in a header
        field, by HTTP Basic with the backend's name, or as `client_id` and `client_secret` in the body, but only in one of
        these ways in a request. The broker ignores empty and unknown fields (RFC 6749 section 3.2). Each field may occur
        once.
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
            The session. The answer is `{"active":false}` if the token opens no session, or a session that this backend may
            not see, for example a child session whose kind does not name the backend. For a bound session without valid
            evidence the answer is `{"active":false, "code", "reason"?}` with `DPoP-Nonce`. The backend should then answer
            the app 401 with this code and nonce, and keep the user signed in.
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
        Only backends with `may: [handover]` and the page's origin among their `origins` may call this. `verifier` is the
        secret in the cookie `__Host-coatcheck-handover` **of the same browser request** that brought the ticket. Never take
        it from the address or the page, because an attacker's link could then sign a victim in to the attacker's account.
        During the ticket's 60 seconds the same secret gets the same session.

        Do not send `session_token` to the browser; give the browser a cookie of your own. Use introspection or exchange to
        find out whether the session is still live.
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
          description: '`verifier_mismatch`: the secret belongs to another ticket. The ticket is not spent. `invalid_request`: the request is malformed.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '401': {$ref: '#/components/responses/AdminUnauthorized'}
        '403': {$ref: '#/components/responses/BackendNotAllowed'}
        '408': {$ref: '#/components/responses/RequestTimeout'}
        '409':
          description: '`too_many_sessions`: all places of the family are taken, and no web view has one of them.'
          headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
          content:
            application/problem+json:
              schema: {$ref: '#/components/schemas/Problem'}
        '410':
          description: '`handover_expired`: the ticket is too old, unknown, or for another origin or backend, or its session has ended.'
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
        The broker refreshes the token first if needed, and the call extends the session's idle time. Without `resource`,
        `audience` and `scope` the answer has the session's own token. If the session has ended, the answer is 400
        `invalid_grant`. For a Zephr session it is `invalid_target`, because such a session has no access token. For a
        bound session without valid evidence it is `invalid_grant` with the `code` `proof_required`, `use_dpop_nonce` or
        `proof_invalid`, and with `DPoP-Nonce`.

        *Bound tokens.* The provider may have bound the access token to a key of the broker's. The backend then gets the
        token together with a proof that is good for one request, and `token_type` is `DPoP`. The fields `dpop_htm` and
        `dpop_htu` name the request that the backend will make (`htm` and `htu` name the app's request). If they are
        missing, or name an endpoint of the provider's own, the answer is `invalid_target`. For a token that is bound to
        the client's certificate the answer is always `invalid_target`, because such a token works only on the broker's
        own connections.

        *Sign-in.* If the session does not meet the demands of `backends.NAME.require`, the answer is 400
        `insufficient_user_authentication` with `acr_values` and `max_age` (RFC 9470).

        *Another API.* `resource`, `audience` and `scope` name another API for the token. Together they have to be exactly
        one entry of `backends.NAME.tokens`, in any order; otherwise the answer is 400 `invalid_target`. The answer is the
        same if the session has no refresh token, or if its provider's tokens are for one API only. If the provider refuses
        the token, the answer is 502, and the session goes on.

        The credential may come in the body, as at introspection. This call refuses unknown fields and is therefore
        stricter than RFC 6749 section 3.2. The reason is that with a misspelt target the backend would get the session's
        own token.
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
        This callback is for providers that return only to https addresses. It redirects the browser to the client's
        registered `hosted_callback_to` with `?handoff=…&login_id=…` or `?error=<code>&login_id=…`. The handoff can be
        used once, within 60 seconds. The provider's code never reaches the device. If the callback has no state, the
        redirect has `?error=login_required&provider=…&client=…`. HEAD and prefetch change nothing.

        If the same callback comes again, the redirect has the same handoff. While this handoff is valid, a different
        callback of the same login gets `?error=state_mismatch`. An address that makes too many handoffs gets
        `?error=rate_limited`.
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
      description: This call does the same as the GET. It neither reads nor sets a cookie. The cross-origin rule does not apply, because the state protects the call.
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
                user: {type: string, maxLength: 4096, description: Apple's JSON with the user's name. Apple sends it only at the first sign-in.}
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
        Ends the session that the logout token's `sid` names. Without a `sid` it ends all sessions of the token's `sub`.
        The answer is the same with and without such a session. The broker ignores cookies, because the token's signature
        authenticates the call.
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
      description: An HTTP/1.0 request may come without a `Host`, as HAProxy's `option httpchk` sends it.
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
      summary: Can the process serve? It can if the store is reachable and migrated, the key ring is the store's own, and no shutdown has begun.
      description: |
        An HTTP/1.0 request may come without a `Host`, as HAProxy's `option httpchk` sends it.

        The answer also shows some faults that leave the status at 200, because the broker still serves sessions. These are
        the providers' state, a revocation endpoint that cannot be called (`problems` names it), a clock ahead of the
        database's, and a full disk. When a shutdown begins, the answer is 503 at once, and the listeners close
        `server.drain_delay` later.
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
        The call needs an admin token with `read`. If no admin token is configured, every path under `/admin` is answered
        404. Ended sessions are listed for 30 days with their reason, which answers a user's "why was I logged out?". If a
        session reaches its time limit, the broker refuses it at once, but keeps its row whole for about a day in case the
        clock was wrong. During this day the session is in neither list. Then it is listed as ended, with the time limit
        as `ended_at`.
      security: [{adminBearer: []}]
      parameters:
        - {name: subject, in: query, schema: {type: string, minLength: 1, maxLength: 512, pattern: '^[\x20-\x7E]+$'}, description: Needs `provider` too.}
        - {name: provider, in: query, schema: {$ref: '#/components/schemas/Name'}}
        - {name: client, in: query, schema: {$ref: '#/components/schemas/Name'}, description: Needs `provider` too.}
        - name: state
          in: query
          description: The kind of sessions. Live sessions are sorted by their creation, ended sessions by their end.
          schema: {type: string, enum: [live, ended], default: live}
        - {$ref: '#/components/parameters/Binding'}
        - {$ref: '#/components/parameters/Cursor'}
      responses:
        '200':
          description: A page of sessions, newest first. `ended_at` and `reason` are null for live sessions.
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
        The call needs an admin token with `end`. The broker writes the audit row first, and ends no session if that fails.
        With `binding=none` the call ends only the sessions that belong to no key, and stops after some seconds. While
        `next_cursor` is not null, repeat the call with its value as `cursor`.
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
      description: The call needs an admin token with `end`. The broker writes the audit row first, and ends no session if that fails.
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
        The call needs an admin token with `read`. The broker counts every row. It counts an exchange as long as the
        exchange's answer can be repeated. A key is `missing` if rows name it and the ring does not have it.
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
      summary: Show how far this process has sealed the stored values again.
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
        The call needs an admin token with `maintain`. If the sealing already runs, it goes on; the state `elsewhere` means
        that another process does it. The broker writes the audit row first, and starts nothing if that fails.
      security: [{adminBearer: []}]
      responses:
        '202':
          description: The sealing runs, in this process or in another one.
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
        The call needs an admin token with `maintain`. The broker makes the file with mode 0600, and refuses an existing
        file or a link. The answer is 404 if the store is not SQLite. The broker writes the audit row first, and makes no
        file if that fails.
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
          description: The backup is written, and SQLite's integrity check of it has passed.
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
                  sessions: {type: integer, minimum: 0, description: 'The number of sessions in the backup, tombstones included.'}
                  schema_version: {type: integer, minimum: 1}
                  opens: {type: boolean, description: Whether the key ring opens a sample of the backup's rows.}
                  ring: {type: string, description: A sentence about the result of that test.}
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
        The call needs an admin token with `configure`. Neither side sends values. A setting's digest is the SHA-256 of the
        salt, a zero byte, the setting's path, a zero byte and its value as text. For `{env: …}` and `{file: …}` the value
        is the content of the variable or file. The answer has every path that either side has. `coatcheck config diff`
        makes this call.
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
                  changed: {type: integer, minimum: 0, description: The number of settings that differ.}
                  items:
                    type: array
                    items:
                      type: object
                      required: [path, state, needs_restart]
                      properties:
                        path: {type: string, description: 'The place of the setting, as a dotted path.'}
                        state: {type: string, description: '`same` or `changed`.'}
                        needs_restart: {type: boolean, description: Whether the setting differs and a reload would refuse the change.}
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
      description: The token of a session of kind `web`. No other session uses this cookie. `coatcheck-web` if `public_url` is plain http.
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
      description: Selects only the sessions that belong to no key of a device. A page may therefore have few or no items and still have a `next_cursor`.
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
        The nonce for the next proof (RFC 9449 section 8). It is on every 401 for missing evidence, and on the answer to a
        proof whose nonce is about to expire.
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
        Answers with another code do not have this field.
      schema: {type: string, description: 'An `EndReason` of `session_ended`; of `presence_invalid` the problem''s `reason`.'}
    X-Auth:
      description: |
        The field is always there, and is empty if its value is unknown. Characters outside 0x21–0x7E are percent-encoded.
        The value has at most 256 bytes. The proxy must replace a field of this name that the client sent.
      required: true
      schema: {type: string, maxLength: 256, pattern: '^[\x21-\x7E]*$'}
    X-Auth-Email:
      description: The user's e-mail address, in the same form as the other fields. It is also empty if the provider reports that the address is not verified (`email_verified` is present, and is neither `true` nor the text `true`).
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
        `proof_required`: a sign-in of this client needs a proof by a key. `use_dpop_nonce`: make the proof with the nonce
        of this answer. `proof_invalid`: `reason` names the fault. For a step-up also `session_required` and `session_ended`,
        if its session is missing or has ended. The code was not spent.
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
        `proof_required`: a sign-in of this client needs a proof by a key. `use_dpop_nonce`: make the proof with the nonce
        of this answer. `proof_invalid`: `reason` names the fault. The state key was not spent.
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
        `session_required`: the request has no session, or an unknown session. The answer does not clear a cookie that was
        sent, so the app should forget it. `session_ended`: the session has ended for the given `reason`, and the answer
        clears the cookie. For a bound session also `proof_required`, `use_dpop_nonce`, or `proof_invalid` with its
        `reason`: the evidence is missing or bad, and the session and the cookie stay.
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
        `session_required`, `session_ended`: the session is missing or has ended. `proof_required`, `use_dpop_nonce`,
        `proof_invalid`: the proof by the session's own key is missing or bad. `step_up_required`: the last sign-in is
        more than ten minutes ago. `presence_required`: the request has no
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
      description: '`backend_unauthorized`: the request has no credential, or an unknown one.'
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        WWW-Authenticate: {$ref: '#/components/headers/WWW-Authenticate'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    ForwardAuthForbidden:
      description: |
        `backend_not_allowed`: the credential may not do this, or not for this session. The code has two more causes: the
        query is unreadable, or it demands presence and the original request is missing. `client_not_allowed`: the session
        is a child of a kind that is not configured. `step_up_failed`: no sign-in at the session's provider can meet the
        demand, or the call needs presence and the session is unbound.
      headers: {X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    BackendNotAllowed:
      description: '`backend_not_allowed`: the credential may not do this, or not for this session. `client_not_allowed`: the session is a child of a kind that is not configured.'
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
      description: '`client_not_allowed`: the session is a child, and its parent has to make this call, or the child''s kind is not configured. `cross_origin`: see the cross-origin rule.'
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
        `provider_unavailable`, `store_unavailable` or `shutting_down`. If the problem has `retry: new_login`, the app
        cannot use the code again, and has to start a new login.
      headers:
        X-Request-Id: {$ref: '#/components/headers/X-Request-Id'}
        Retry-After: {$ref: '#/components/headers/Retry-After'}
      content:
        application/problem+json:
          schema: {$ref: '#/components/schemas/Problem'}
    RelayUnavailable:
      description: |
        `upstream_busy` (all of the upstream's places are taken), `upstream_nonce` (the upstream wants another proof of
        the broker's, and the broker no longer has the request's body, so the app has to send the request again),
        `provider_unavailable`, `store_unavailable` or
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
        As at other operations `session_required`, `session_ended`, and for bound sessions `proof_required`,
        `use_dpop_nonce`, `proof_invalid`. `step_up_required`: the call needs a stronger or more recent sign-in. The member
        `step_up` has the demand, and the session and the cookie stay. `presence_required`, `presence_invalid`: the call
        needs a proof by the presence key over the same request, made with the nonce of this answer.
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
        it has no access token because it was made from an id_token. The code has two more causes: the session has no way
        to get a token for this upstream, or is a child whose kind does not name the upstream. `client_not_allowed`: the
        session is a child of a kind that is not configured. `cross_origin`: see the cross-origin rule. `step_up_failed`:
        no sign-in at this provider can meet the demand, the session already meets the upstream's challenge, or the call
        needs presence and the session is unbound.
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
      description: '`upstream_timeout`: the upstream did not send the head of its answer within 30 seconds.'
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
      description: '`invalid_client`: the request has no credential, or an unknown one.'
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
      description: '`unsupported_media_type`: the body has to be a form.'
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
      description: A session's public name. It is not a secret, because it opens nothing.
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
          description: At most eight words with spaces between them. The id_token's `acr` has to be one of them.
          minLength: 1
          maxLength: 1608
          pattern: '^[\x21\x23-\x5B\x5D-\x7E]{1,200}( [\x21\x23-\x5B\x5D-\x7E]{1,200}){0,7}$'
        max_age: {type: integer, minimum: 0, maximum: 2147483648, description: The largest allowed number of seconds since the sign-in.}
    DemandedSignIn:
      type: object
      description: The demanded class and age of the sign-in, in the form of `step_up`.
      properties:
        acr_values: {type: string, description: Words with spaces between them. The id_token's `acr` has to be one of them.}
        max_age: {type: integer, minimum: 0, description: The largest allowed number of seconds since the sign-in.}
        presence: {type: boolean, description: 'Whether the call needs a proof by the presence key. `POST /v1/logins` does not have this member, because a sign-in cannot bring such a proof.'}
    StartLogin:
      type: object
      additionalProperties: false
      dependentRequired: {code_challenge_method: [code_challenge], code_challenge: [code_challenge_method]}
      properties:
        provider: {$ref: '#/components/schemas/Name', description: 'Required, unless `step_up` is sent with a session.'}
        client: {$ref: '#/components/schemas/Name', description: May be left out if the provider has one client.}
        step_up: {$ref: '#/components/schemas/StepUp'}
        redirect_uri: {$ref: '#/components/schemas/RedirectURI', description: 'If it is left out, the client''s first redirect URI.'}
        scope:
          type: string
          description: 'A part of the client''s scope, words with spaces between them. If it is left out, the whole scope of the client.'
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
          description: The social provider, for Zephr only. It is required unless exactly one is configured.
          pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'
        parameters:
          type: object
          description: Parameters that the broker adds to the authorization request. Their names must be in the client's `allowed_parameters`.
          maxProperties: 16
          propertyNames: {pattern: '^[A-Za-z0-9_.-]{1,64}$'}
          additionalProperties: {type: string, maxLength: 1024, pattern: '^[\x20-\x7E]*$'}
        login_token: {$ref: '#/components/schemas/LoginToken'}
    StartedLogin:
      type: object
      required: [login_id, authorization_url, state, expires_at]
      properties:
        login_id: {type: string, pattern: '^lgn_[A-Za-z0-9_-]{22}$'}
        authorization_url: {type: string, format: uri, description: The address that the app opens in the system browser.}
        app_url: {type: string, description: 'The address that the app opens instead, if the provider''s own app is on the device (Clever, `app_start`).'}
        state: {type: string, minLength: 1, description: The state that the callback will have. The app may compare the two. The broker does not need this comparison.}
        expires_at: {$ref: '#/components/schemas/Time'}
        open_by: {$ref: '#/components/schemas/Time', description: 'The last moment to open `authorization_url`, if that is before `expires_at` (a pushed request, RFC 9126). A user who has opened it has until `expires_at`.'}
        login_token: {$ref: '#/components/schemas/LoginToken', description: For bearer clients only; others have it as a cookie.}
    ForwardCode:
      type: object
      description: |
        The body needs at least `callback_url`, or `handoff`, or `provider` with one of `code`, `id_token` and `tokens`.
      additionalProperties: false
      properties:
        callback_url:
          type: string
          description: |
            The whole URL with which the provider returned to the app, unchanged. Parameters that the broker does not know
            may have any form.
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
            Flow B. The scope that the app requested, words with spaces between them. It has to be a part of the client's
            scope. If the provider's answer has no scope, this is the session's scope (RFC 6749 section 5.1).
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
        refresh_token: {$ref: '#/components/schemas/Opaque', description: 'For Clover. The app leaves it out if the access token is from the time before Clover''s tokens expired; the broker then trades that token for a pair. Clever has no refresh tokens.'}
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
          description: The attributes by name. A name has letters, digits, `_`, `.` and `-`. A value is a string of at most 1024 characters, a number or a boolean.
          maxProperties: 64
          additionalProperties: true
        login_token: {$ref: '#/components/schemas/LoginToken'}
    ForwardOutcome:
      description: |
        The result of a forward. With 201 it is a new session, with 200 the session that was stepped up, with 202 a
        registration that the app has to finish. (They have one type, because most generators give an operation one type
        of answer.)
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
      description: The session object. It never has a token. Every member is always there.
      required: [handle, version, provider, client, subject, identity, scope, created_at, last_used_at, idle_expires_at, expires_at, tokens, acr, amr, authenticated_at, kind, parent, binding, presence]
      properties:
        handle: {$ref: '#/components/schemas/Handle'}
        version: {type: integer, minimum: 1, description: 'The number of this state. A step-up and a presence key raise it, a refresh does not. After a higher number the app must ignore an answer with a lower one, because a replica may answer with a state of some seconds ago. If two answers have the same number, the later answer is the newer state.'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        subject: {type: string, minLength: 1, description: 'The user''s name at the provider. Provider and subject together identify the account.'}
        identity: {$ref: '#/components/schemas/Identity'}
        scope: {type: array, items: {type: string}, description: Empty when unknown.}
        created_at: {$ref: '#/components/schemas/Time'}
        last_used_at: {$ref: '#/components/schemas/Time'}
        idle_expires_at: {$ref: '#/components/schemas/Time'}
        expires_at: {$ref: '#/components/schemas/Time'}
        tokens: {$ref: '#/components/schemas/SessionTokens'}
        acr: {type: [string, 'null'], description: 'The class of the sign-in, from the id_token; only a sign-in sets it.'}
        amr: {type: array, items: {type: string}, description: 'The methods of the sign-in, from the id_token.'}
        authenticated_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', description: 'The id_token''s `auth_time`. It is null if the provider does not report it, because the time of the sign-in at the broker is not a substitute.'}
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
        path: {type: string, minLength: 1, maxLength: 2048, pattern: '^/[\x21-\x7E]*$', description: 'The path of the page. It begins with one `/`, and has no backslash and no fragment. `/` by default.'}
        challenge: {type: string, pattern: '^[A-Za-z0-9_-]{43}$', description: The base64url SHA-256 of the secret.}
    Handover:
      type: object
      required: [url, expires_at]
      properties:
        url: {type: string, description: 'The address that the web view loads when the cookie is in its store.'}
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
        name: {type: string, minLength: 1, maxLength: 32, pattern: '^[a-z0-9-]+$', description: 'The name of the child within its kind.'}
        device: {type: string, minLength: 1, maxLength: 64, description: The name that lists of sessions show.}
        jkt: {type: string, pattern: '^[A-Za-z0-9_-]{43}$', description: 'The thumbprint (RFC 7638) of the child''s own P-256 key. It is required if the parent is a bound session.'}
    SessionBinding:
      type: object
      description: The key of a bound session.
      required: [jkt, evidence]
      properties:
        jkt: {type: string, pattern: '^[A-Za-z0-9_-]{43}$', description: The key's thumbprint (RFC 7638).}
        evidence: {type: string, description: 'The evidence that its requests may show: `pass` (or a proof), or `proof`.'}
    SessionPresence:
      type: object
      description: The presence key, which the device uses only after its user has agreed.
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
      description: A new session. Only bearer clients get its token here.
      required: [handle, version, provider, client, subject, identity, scope, created_at, last_used_at, idle_expires_at, expires_at, tokens, acr, amr, authenticated_at, kind, parent, binding, presence]
      properties:
        handle: {$ref: '#/components/schemas/Handle'}
        version: {type: integer, minimum: 1, description: 'The number of this state. A step-up and a presence key raise it, a refresh does not. After a higher number the app must ignore an answer with a lower one, because a replica may answer with a state of some seconds ago. If two answers have the same number, the later answer is the newer state.'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        subject: {type: string, minLength: 1, description: 'The user''s name at the provider. Provider and subject together identify the account.'}
        identity: {$ref: '#/components/schemas/Identity'}
        scope: {type: array, items: {type: string}, description: Empty when unknown.}
        created_at: {$ref: '#/components/schemas/Time'}
        last_used_at: {$ref: '#/components/schemas/Time'}
        idle_expires_at: {$ref: '#/components/schemas/Time'}
        expires_at: {$ref: '#/components/schemas/Time'}
        tokens: {$ref: '#/components/schemas/SessionTokens'}
        acr: {type: [string, 'null'], description: 'The class of the sign-in, from the id_token; only a sign-in sets it.'}
        amr: {type: array, items: {type: string}, description: 'The methods of the sign-in, from the id_token.'}
        authenticated_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', description: 'The id_token''s `auth_time`. It is null if the provider does not report it, because the time of the sign-in at the broker is not a substitute.'}
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
        version: {type: integer, minimum: 1, description: 'The number of this state. A step-up and a presence key raise it, a refresh does not. After a higher number the app must ignore an answer with a lower one, because a replica may answer with a state of some seconds ago. If two answers have the same number, the later answer is the newer state.'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        subject: {type: string, minLength: 1, description: 'The user''s name at the provider. Provider and subject together identify the account.'}
        identity: {$ref: '#/components/schemas/Identity'}
        scope: {type: array, items: {type: string}, description: Empty when unknown.}
        created_at: {$ref: '#/components/schemas/Time'}
        last_used_at: {$ref: '#/components/schemas/Time'}
        idle_expires_at: {$ref: '#/components/schemas/Time'}
        expires_at: {$ref: '#/components/schemas/Time'}
        tokens: {$ref: '#/components/schemas/SessionTokens'}
        acr: {type: [string, 'null'], description: 'The class of the sign-in, from the id_token; only a sign-in sets it.'}
        amr: {type: array, items: {type: string}, description: 'The methods of the sign-in, from the id_token.'}
        authenticated_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', description: 'The id_token''s `auth_time`. It is null if the provider does not report it, because the time of the sign-in at the broker is not a substitute.'}
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
        version: {type: integer, minimum: 1, description: 'The number of this state. A step-up and a presence key raise it, a refresh does not. After a higher number the app must ignore an answer with a lower one, because a replica may answer with a state of some seconds ago. If two answers have the same number, the later answer is the newer state.'}
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        subject: {type: string, minLength: 1, description: 'The user''s name at the provider. Provider and subject together identify the account.'}
        identity: {$ref: '#/components/schemas/Identity'}
        scope: {type: array, items: {type: string}, description: Empty when unknown.}
        created_at: {$ref: '#/components/schemas/Time'}
        last_used_at: {$ref: '#/components/schemas/Time'}
        idle_expires_at: {$ref: '#/components/schemas/Time'}
        expires_at: {$ref: '#/components/schemas/Time'}
        tokens: {$ref: '#/components/schemas/SessionTokens'}
        acr: {type: [string, 'null'], description: 'The class of the sign-in, from the id_token; only a sign-in sets it.'}
        amr: {type: array, items: {type: string}, description: 'The methods of the sign-in, from the id_token.'}
        authenticated_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', description: 'The id_token''s `auth_time`. It is null if the provider does not report it, because the time of the sign-in at the broker is not a substitute.'}
        kind: {type: [string, 'null'], description: 'A child session''s kind, from the configuration; null for others.'}
        parent: {type: [string, 'null'], pattern: '^ses_[A-Za-z0-9_-]{22}$', description: 'The handle of a child session''s parent; null for others.'}
        binding: {oneOf: [{$ref: '#/components/schemas/SessionBinding'}, {type: 'null'}]}
        presence: {oneOf: [{$ref: '#/components/schemas/SessionPresence'}, {type: 'null'}]}
        device: {type: [string, 'null']}
        sender_constrained:
          type: [string, 'null']
          description: >-
            The way in which the provider has bound the session's tokens, so that a copied token is useless: `dpop` (RFC
            9449) or `mtls` (RFC 8705). It is null if they are not bound, and after the session's end. A child has the value
            of its parent.
        ended_at: {type: [string, 'null'], format: date-time, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$'}
        reason: {oneOf: [{$ref: '#/components/schemas/EndReason'}, {type: 'null'}]}
    HowManyEnded:
      type: object
      required: [ended]
      properties:
        ended: {type: integer, minimum: 0}
        unreadable: {type: integer, minimum: 0, description: 'With `binding=none`: the number of sessions that the broker is unable to open now, and therefore does not end.'}
        next_cursor: {type: [string, 'null'], description: 'With `binding=none`: if it is a string, there may be more sessions to end.'}
    LogOutPage:
      type: object
      required: [logout_url]
      properties:
        logout_url:
          type: [string, 'null']
          format: uri
          description: |
            The address of `end_session` with `client_id` and, if the client has one, `post_logout_redirect_uri` and a new
            `state`. The app compares that state when the browser returns to the app. The address never has an id_token.
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
        login: {type: string, description: 'The side that starts the client''s logins: `broker`, `app` or `both`.'}
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
        mode: {type: string, description: '`off`, `observe`, or `enforce`. With `enforce` each sign-in needs a proof by a key.'}
        evidence: {type: string, description: '`pass` or `proof`.'}
    ProviderKind: {type: string, description: '`oidc`, `oauth2`, `clever`, `clover`, `zephr`; more may come.'}
    BreakerState:
      type: string
      description: |
        The state of the provider's circuit breaker. `closed` is the normal state, and calls go to the provider. `open` means
        that the broker makes no calls because of earlier failures. `half_open` means that the broker tries one call.
        `unknown` means that the provider has no breaker.
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
        disk: {type: string, description: 'The store''s disk, `ok` or `full`. If it is full, sign-ins are refused, and sessions are still served and ended. It does not change `status`.'}
        endings_file: {type: string, description: 'With `store.endings_file`: `ok`, or the reason of its failure. During a failure log-outs take effect but are answered with 503. It does not change `status`.'}
        keys: {type: string, description: 'Whether the key ring opens a sample of the stored rows: `ok` or `do_not_open_the_store`.'}
        clock_ahead_seconds: {type: integer, description: "The number of seconds that this machine's clock is ahead of the database's clock, if the database has one. Beyond a minute the broker does not trust its clock."}
        problems: {type: array, items: {type: string}, description: 'The faults, a sentence each, for people.'}
        providers:
          type: object
          description: 'The state of each provider: `ok`; `failing` (the last calls failed, or were answered 5xx); `open` (the breaker refuses calls); `unknown`. It does not change `status`.'
          additionalProperties: {type: string, description: '`ok`, `failing`, `open` or `unknown`.'}
        certificates:
          type: array
          description: 'The certificates that clients show to their provider, if there are any. They do not change `status`.'
          items: {$ref: '#/components/schemas/CertificateState'}

    CertificateState:
      type: object
      required: [provider, client, not_after, days_left]
      properties:
        provider: {$ref: '#/components/schemas/Name'}
        client: {$ref: '#/components/schemas/Name'}
        not_after: {type: string, format: date-time, description: 'The expiry of the first certificate in the client''s chain.'}
        days_left: {type: integer, description: 'The number of whole days until the expiry. It is below zero after the expiry.'}

    KeyState:
      type: object
      required: [id, use, seals_from, values]
      properties:
        id: {type: string}
        use: {type: string, description: '`seals`, `opens`, `waits` or `missing`.'}
        seals_from: {type: [string, 'null'], format: date-time, description: 'The time from which the key seals. It is null unless the key waits.'}
        values: {type: integer, minimum: 0, description: The number of stored values that need this key.}
    ResealProgress:
      type: object
      required: [state, key, total, seen, resealed, unopened]
      properties:
        state: {type: string, description: '`idle`, `running`, `elsewhere` (another replica does it) or `done`.'}
        key: {type: [string, 'null'], description: The name of the key that the values are sealed with.}
        total: {type: integer, minimum: 0, description: The number of values when the work began.}
        seen: {type: integer, minimum: 0}
        resealed: {type: integer, minimum: 0}
        unopened: {type: integer, minimum: 0, description: 'The number of values that do not open with this ring. They stay unchanged.'}

    Introspection:
      type: object
      required: [active]
      description: If the token opens no session, the answer has only `active`. Otherwise it has every member.
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
        code: {type: string, description: 'The reason for which a bound session is not shown: `proof_required`, `use_dpop_nonce` or `proof_invalid`.'}
        reason: {type: string, description: 'The fault of a proof or pass.'}
    ExchangedToken:
      type: object
      required: [access_token, issued_token_type, token_type]
      properties:
        access_token: {type: string, minLength: 1}
        issued_token_type: {type: string, description: '`urn:ietf:params:oauth:token-type:access_token`.'}
        token_type: {type: string, description: '`Bearer`, or `DPoP` for a token that goes out with `dpop_proof`.'}
        dpop_proof: {type: string, description: 'The proof for the request that the backend named. The backend sends it in the header `DPoP` of that request.'}
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
        acr_values: {type: string, description: 'With `insufficient_user_authentication`: the words of which the `acr` has to be one.'}
        max_age: {type: integer, minimum: 0, description: 'With `insufficient_user_authentication`: the largest allowed number of seconds since the sign-in.'}

    Problem:
      type: object
      required: [type, title, status, code, detail, request_id]
      properties:
        type: {type: string, pattern: '^urn:coatcheck:problem:[a-z_]+$'}
        title: {type: string}
        status: {type: integer, minimum: 400, maximum: 599}
        code: {$ref: '#/components/schemas/ProblemCode'}
        detail: {type: string, description: A text for developers. It never repeats input.}
        request_id: {type: string, pattern: '^req_[A-Za-z0-9_-]{11}$'}
        errors: {type: array, minItems: 1, items: {$ref: '#/components/schemas/FieldFault'}}
        reason: {type: string, description: 'With `session_ended` the reason of the end, as in `EndReason`: `logged_out`, `logged_out_elsewhere`, `replaced`, `idle_expired`, `expired`, `token_expired`, `grant_revoked`, `refresh_lost`, `subject_changed`, `provider_logout`, `parent_ended`, `admin`, `session_limit` or `integrity`. With `proof_invalid` `malformed`, `algorithm`, `method`, `address`, `token`, `key`, `replayed`, `signature` or `pass`. With `presence_invalid` the same words without `pass`, or `nonce`. With `step_up_failed` `upstream`: the session already meets the upstream''s challenge.'}
        retry: {type: string, description: '`new_login`: the app cannot use the code again, and has to start a new login.'}
        login: {$ref: '#/components/schemas/StartedLogin'}
        step_up: {$ref: '#/components/schemas/DemandedSignIn', description: 'With `step_up_required`: the `step_up` for `POST /v1/logins`. With `presence_required`: `{"presence": true}`.'}
        parent: {type: boolean, description: 'For a child session. With `step_up_required`: the parent has to step up, and then make a new child. With `presence_required`: the parent has to make the call itself.'}
        required: {$ref: '#/components/schemas/DemandedSignIn', description: 'With `step_up_failed`: the demand.'}
        got:
          type: object
          description: 'With `step_up_failed`: the values that the sign-in had. It is left out if they are unknown.'
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
        The name of the failure, for programs. A minor version may add codes, so a program that does not know a code
        should use `status`. The codes are:
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
        The reason of a session's end. A minor version may add reasons. `logged_out`; `logged_out_elsewhere` (from another
        device); `replaced` (by a new login on the same device); `idle_expired`; `expired`; `token_expired` (the tokens
        expired and cannot be refreshed); `grant_revoked` (the provider reports that the grant is revoked); `refresh_lost`
        (the provider rotated the refresh token and its answer was lost); `subject_changed` (a refresh returned tokens of
        another user); `provider_logout` (Back-Channel Logout); `parent_ended` (the parent of this child session ended);
        `admin` (an operator ended it); `session_limit` (the user had too many sessions); `integrity` (the stored row was
        changed).

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
