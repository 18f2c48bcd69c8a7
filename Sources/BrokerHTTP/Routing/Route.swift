import Broker
import BrokerWire
package import HTTPTypes

/// One line of a route table: a method, a path, what is special about it, and what serves it.
package struct Route: Sendable {
    /// What a route wants of the responder, beyond the usual.
    struct Traits: OptionSet, Sendable {
        let rawValue: Int
        /// Takes any method, and its body as a stream (the relay).
        static let relay = Traits(rawValue: 1)
        /// The cross-origin rule applies to safe methods too.
        static let sameOriginAlways = Traits(rawValue: 2)
        /// The cross-origin rule does not apply: something else protects it.
        static let anyOrigin = Traits(rawValue: 4)
        /// Its errors are OAuth's.
        static let oauthErrors = Traits(rawValue: 8)
        /// Its body may have a mebibyte, whatever `limits.body` says.
        static let largeBody = Traits(rawValue: 16)
        /// Its body is JSON.
        static let json = Traits(rawValue: 32)
        /// Its body is a form.
        static let form = Traits(rawValue: 64)
        /// Stands for every path that the patterns of the app links cover and no other route has.
        static let appLinks = Traits(rawValue: 128)
    }

    typealias Handler = @Sendable (Call) async throws(BrokerProblem) -> Answer
    /// Throws what a request is refused with, whatever its body says.
    typealias Check = @Sendable (Call) async throws(BrokerProblem) -> Void

    /// The method; for the relay, GET stands for any.
    package let method: HTTPRequest.Method
    /// The method's name, for metrics.
    package var methodName: String { method.rawValue }
    /// The path with its parameters in braces, as in the contract.
    package let template: String
    /// Whether any method is taken.
    package var takesAnyMethod: Bool { traits.contains(.relay) }
    let traits: Traits
    /// What a request has to prove before its body is asked for; its handler looks again, for those without a body too.
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
