import Broker
import BrokerWire
import HTTPTypes
import NIOCore
import NIOHTTP1

/// One call of the relay, sent once and at most once more with a fresh token.
///
/// If the token needs DPoP proofs, each of the two requests may be repeated once, with a new nonce that the upstream requests.
struct RelayedCall {
    let request: RelayRequest
    let upstream: Upstream
    let path: String
    let body: UpstreamRequest.Body
    let own: Set<OwnName>
    let place: UpstreamConcurrency.Place
    let session: LiveSession
    let proofs: RelayProofs?
    let certificates: ClientCertificates?
    var token: AccessToken
    /// Whether a request of this call was sent a second time, because the result of its first sending was unknown.
    private(set) var isRepeated = false

    /// Sends the request for the first time, after its presence proof has been used up.
    ///
    /// If the request provably never reached the upstream, or the upstream refused it, the presence proof is released, so the
    /// user is not prompted twice for one call. A repeat with another token belongs to the same call, so the same proof
    /// covers it.
    mutating func begin(showing presence: JudgedPresence?) async throws(RelayFailure) -> UpstreamResponse {
        guard let presence else { return try await send() }
        do throws(BrokerProblem) { try await presence.take() } catch { throw RelayFailure(error) }
        do throws(RelayFailure) { return try await send() } catch {
            if error.isUnsent, !isRepeated { await presence.giveBack() }
            throw error
        }
    }

    /// Sends the request, with a proof if the token needs one; returns the response when its header has arrived.
    mutating func send() async throws(RelayFailure) -> UpstreamResponse {
        guard token.key != nil else {
            let response = try await attempt(nil)
            isRepeated = isRepeated || response.isRepeated
            return response
        }
        guard
            var proof = RelayProof(token, proofs, upstream.settings, session: session, target: path)
        else {
            throw RelayFailure.unsent(
                BrokerProblem(.upstreamNotAllowed, privateDetail: "no proof can be made for this token"))
        }
        var isFirst = true
        while true {
            let response: UpstreamResponse
            do throws(RelayFailure) { response = try await attempt(proof) } catch {
                throw isFirst ? error : error.sent
            }
            isFirst = false
            isRepeated = isRepeated || response.isRepeated
            switch proof.heard(response) {
            case .take: return response
            case .sendAgain:
                if case .stream = body { throw RelayFailure.unsent(Self.nonceWanted) }
                // Read a short body to its end, so that the connection can be kept. A longer body stays unread, which closes
                // its connection (SEC-79).
                if let length = response.headers.first(name: "Content-Length").flatMap({ Int($0) }),
                    length <= Self.challengeBody
                {
                    _ = try? await response.collect(upTo: length)
                }
            case .giveUp: throw RelayFailure.unsent(Self.nonceWanted)
            }
        }
    }

    /// The largest number of bytes that are read of the body of a 401, so that its connection can be kept.
    private static let challengeBody = 4096

    /// The problem for a call whose upstream requests another nonce.
    ///
    /// The next call will have this nonce.
    ///
    /// A 401 would be wrong here, because an app would treat it as the end of its session.
    private static var nonceWanted: BrokerProblem {
        // The field `Retry-After` has whole seconds, so the answer rounds this time up to one second.
        BrokerProblem(
            .upstreamNonce, privateDetail: "the upstream asks for another nonce", retryAfter: .milliseconds(500))
    }

    /// The problem for a token that is bound to a certificate which is not shown to this upstream.
    ///
    /// If the session is refreshable and the upstream uses https, this is `provider_unavailable`, because the next call refreshes
    /// the token for the new certificate. In all other cases, every call fails with `upstream_not_allowed`.
    private var certificateNotShown: BrokerProblem {
        let words = "the access token is bound to a certificate that this upstream is not shown"
        guard upstream.settings.base.isSecure, session.tokenHolder.row.refreshable else {
            return BrokerProblem(.upstreamNotAllowed, privateDetail: words)
        }
        return BrokerProblem(.providerUnavailable, privateDetail: words, retryAfter: .seconds(1))
    }

    /// Sends the request once, in a span of the request's trace if there is one.
    private func attempt(_ proof: RelayProof?) async throws(RelayFailure) -> UpstreamResponse {
        guard let parent = RequestScope.current?.span else { return try await deliver(proof, nil) }
        let (method, name) = (TraceMethod.name(request.method.rawValue), upstream.settings.name.text)
        let span = parent.child("\(method) \(name)", .client)
        span.set("http.request.method", method)
        span.set("coatcheck.upstream", name)
        do throws(RelayFailure) {
            let response = try await deliver(proof, span)
            span.set("http.response.status_code", Int(response.status.code))
            span.end(response.status.code >= 500 ? String(response.status.code) : nil)
            return response
        } catch {
            span.end(error.problem.code.rawValue)
            throw error
        }
    }

    /// Sends the request.
    ///
    /// `UpstreamClient` never repeats a request with a proof. Therefore, if a kept connection closes before the answer, this
    /// method repeats the request with another proof. It repeats only an idempotent request whose body is in memory.
    private func deliver(
        _ proof: RelayProof?, _ span: (any TraceSpan)?
    ) async throws(RelayFailure) -> UpstreamResponse {
        let settings = upstream.settings
        guard token.credential == settings.credential || (token.credential.isBound && settings.credential == .bearer)
        else {
            throw RelayFailure.unsent(
                BrokerProblem(
                    .upstreamNotAllowed, detail: "This session's credential is not what the upstream takes."))
        }
        guard let credential = token.field(settings.proof.scheme) else {
            throw RelayFailure.unsent(
                BrokerProblem(.upstreamError, privateDetail: "the access token cannot be sent in a field"))
        }
        guard let client = upstream.client(for: token, of: session, certificates) else {
            throw RelayFailure.unsent(certificateNotShown)
        }
        place.hold(client)
        let begun = NIODeadline.now()
        var isRepeated = false
        while true {
            let field: (name: String, value: String)?
            do throws(BrokerProblem) { field = try self.field(of: proof) } catch {
                throw isRepeated ? RelayFailure(error) : .unsent(error)
            }
            let headers = RequestHeaderRules.headers(
                from: request.headers, extra: settings.requestHeaders, host: settings.base.authority,
                requestID: request.requestID, span: span, credential: credential, proof: field)
            let outgoing = UpstreamRequest(
                HTTPMethod(rawValue: request.method.rawValue), path, headers, body: body,
                within: TimeAmount(settings.timeout) - (.now() - begun))
            do throws(UpstreamFailure) {
                return try await client.send(outgoing, on: request.eventLoop, connecting: isRepeated)
            } catch {
                guard proof != nil, !isRepeated, isIdempotent, isBodyAtHand, case .call(.lost) = error else {
                    throw RelayFailure(error)
                }
                isRepeated = true
            }
        }
    }

    private func field(of proof: RelayProof?) throws(BrokerProblem) -> (name: String, value: String)? {
        do throws(VaultFailure) { return try proof?.field(request.method.rawValue, token.token) } catch {
            throw BrokerProblem(error)
        }
    }

    /// Whether the complete body is in memory, so that it can be sent again.
    private var isBodyAtHand: Bool {
        if case .stream = body { false } else { true }
    }

    /// Whether sending the request twice has the same effect as sending it once (RFC 9110 section 9.2.2).
    private var isIdempotent: Bool {
        switch request.method {
        case .get, .head, .put, .delete, .options: true
        default: false
        }
    }

    /// Returns whether the request may be sent again after this 401 (SEC-60).
    ///
    /// The request's body must be in memory. In addition, one of these conditions must be met: the method is idempotent, the
    /// 401 has a challenge, or the request has an idempotency key.
    func canBeRepeated(after response: UpstreamResponse) -> Bool {
        // The upstream refused the proof and not the token, so another token would be useless.
        if token.key != nil, response.challenges("invalid_dpop_proof") { return false }
        if case .stream = body { return false }
        return isIdempotent || response.headers.contains(name: "WWW-Authenticate")
            || request.headers.contains(.idempotencyKey)
    }

    /// Converts the upstream's response into the app's.
    func render(_ response: UpstreamResponse) async throws(RelayFailure) -> RelayResponse {
        let status: HTTPResponse.Status
        let head: ResponseHeaderRules.Head
        do throws(ResponseHeaderRules.Fault) {
            status = try ResponseHeaderRules.status(response.status)
            head = try ResponseHeaderRules.head(
                from: response.headers, token: token.token.reveal(),
                places: RelayedLocation(
                    upstream: upstream.settings.name.text, base: upstream.settings.base, target: path, own: own))
        } catch {
            // The response stays unread, which closes its connection (SEC-79).
            throw RelayFailure(
                BrokerProblem(.upstreamError, privateDetail: "the response head is not passed on: \(error)"))
        }
        let isBodiless =
            request.method == .head || status.code == 204 || status.code == 304 || head.contentLength == 0
        // Stream the response of an upstream that answered before the request's end, because the response may end as late as
        // the request.
        if response.isEarly {
            return RelayResponse(
                status: status, headers: head.fields, contentLength: isBodiless ? nil : head.contentLength,
                body: .stream(RelayBody(response: response, place: place)))
        }
        if isBodiless {
            // Read the end of the response, which has already arrived. Otherwise, the connection would be closed instead of
            // kept.
            _ = try? await response.collect(upTo: 0)
            let length = status.code == 204 || status.code == 304 ? nil : head.contentLength
            return RelayResponse(status: status, headers: head.fields, contentLength: length, body: .none)
        }
        if let length = head.contentLength, length <= Relay.heldBody {
            do throws(UpstreamFailure) {
                let whole = try await response.collect(upTo: length)
                return RelayResponse(
                    status: status, headers: head.fields, contentLength: length, body: .buffered(whole))
            } catch { throw RelayFailure(error).sent }
        }
        return RelayResponse(
            status: status, headers: head.fields, contentLength: head.contentLength,
            body: .stream(RelayBody(response: response, place: place)))
    }
}

extension AccessToken {
    /// Returns the field that carries the token, or nil if its bytes are not allowed in a field (SEC-78).
    ///
    /// `scheme` is the authorization scheme for a token that is bound to a key.
    fileprivate func field(_ scheme: ProofPresentation.Scheme) -> (name: String, value: String)? {
        let text = token.reveal()
        guard !text.isEmpty else { return nil }
        // An access token consists of visible ASCII (decision 80).
        switch credential {
        case .bearer, .mtls:
            guard PlainText.isVisible(text) else { return nil }
            return ("Authorization", "Bearer " + text)
        case .zephrCookie:
            // RFC 6265's cookie-octet. Any other character could begin another cookie.
            guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && ![0x22, 0x2C, 0x3B, 0x5C].contains($0) }) else {
                return nil
            }
            return ("Cookie", "blaize_session=" + text)
        case .dpop:
            guard PlainText.isVisible(text) else { return nil }
            return ("Authorization", scheme.rawValue + " " + text)
        }
    }
}

extension HTTPField.Name {
    fileprivate static let idempotencyKey: HTTPField.Name = HTTPField.Name("Idempotency-Key") ?? .ifMatch
}
