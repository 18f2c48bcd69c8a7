import HTTPTypes

/// Further fields with constant values.
enum ConstantFields {
    static let noStore = HTTPField(name: .cacheControl, value: "no-store")
    static let json = HTTPField(name: .contentType, value: "application/json")
    static let problem = HTTPField(name: .contentType, value: "application/problem+json")
    /// The field that makes nginx pass the answer on at once.
    ///
    /// Otherwise, nginx buffers some kilobytes.
    static let unbuffered = HTTPField(name: .accelBuffering, value: "no")
    static let eventStream = HTTPField(name: .contentType, value: "text/event-stream")
    static let varyOrigin = HTTPField(name: .vary, value: "Origin")
    static let allowCredentials = HTTPField(name: .accessControlAllowCredentials, value: "true")
    static let exposeHeaders = HTTPField(
        name: .accessControlExposeHeaders,
        value: "X-Request-Id, Retry-After, Coatcheck-Source, Coatcheck-Code, DPoP-Nonce, WWW-Authenticate")
    static let sourceBroker = HTTPField(name: .coatcheckSource, value: "broker")
    static let bearerChallenge = HTTPField(name: .wwwAuthenticate, value: "Bearer realm=\"coatcheck\"")
    static let backendChallenge = HTTPField(name: .wwwAuthenticate, value: "Bearer realm=\"coatcheck-backend\"")
    static let basicChallenge = HTTPField(name: .wwwAuthenticate, value: "Basic realm=\"coatcheck-backend\"")
}
