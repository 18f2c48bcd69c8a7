import Broker
import BrokerWire
package import HTTPTypes

/// One row of a route table: a method, a path, its traits and its handler.
package struct Route: Sendable {
    /// The properties of a route that change how the responder serves it.
    struct Traits: OptionSet, Sendable {
        let rawValue: Int
        /// The route takes any method, and its body as a stream (the relay).
        static let relay = Traits(rawValue: 1)
        /// The cross-origin rule applies to safe methods too.
        static let sameOriginAlways = Traits(rawValue: 2)
        /// The cross-origin rule does not apply, because the route is protected in another way.
        static let anyOrigin = Traits(rawValue: 4)
        /// The route's errors have OAuth's form.
        static let oauthErrors = Traits(rawValue: 8)
        /// The route's body may have a mebibyte, even if `limits.body` is smaller.
        static let largeBody = Traits(rawValue: 16)
        /// The route's body is JSON.
        static let json = Traits(rawValue: 32)
        /// The route's body is a form.
        static let form = Traits(rawValue: 64)
        /// The route serves every path that matches an app link pattern, unless the path has its own route.
        static let appLinks = Traits(rawValue: 128)
        /// The route's refusals are pages, unless the request accepts problem documents.
        static let page = Traits(rawValue: 256)
    }

    typealias Handler = @Sendable (Call) async throws(BrokerProblem) -> Answer
    /// Throws if the request is to be refused before its body is read; returns the session that the body belongs to, if there
    /// is one.
    typealias Check = @Sendable (Call) async throws(BrokerProblem) -> HeldBodies.Owner?

    /// The method; for the relay, GET represents any method.
    package let method: HTTPRequest.Method
    /// The method's name, for metrics.
    package var methodName: String { method.rawValue }
    /// The path with its parameters in braces, as in the contract.
    package let template: String
    /// Whether the route takes any method.
    package var takesAnyMethod: Bool { traits.contains(.relay) }
    let traits: Traits
    /// Whether the route leaves bodies unread, because its methods are GET and HEAD.
    var readsNoBody: Bool { method == .get && !takesAnyMethod }
    /// The check that runs before the broker sends `100 Continue` and reads the body; nil for GET and HEAD.
    ///
    /// The handler makes the same check again, because this check may be skipped for a request that has no body.
    let proof: Check?
    let handler: Handler

    init(
        _ method: HTTPRequest.Method, _ template: String, _ traits: Traits = [], proof: Check? = nil,
        handler: @escaping Handler
    ) {
        self.method = method
        self.template = template
        self.traits = traits
        self.proof = proof
        self.handler = handler
    }
}
