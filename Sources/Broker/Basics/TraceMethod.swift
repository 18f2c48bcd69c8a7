/// The methods that may be in the names of spans; a client's own text must not be.
package enum TraceMethod {
    private static let known: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

    /// Returns the method, or `other`.
    package static func name(_ method: String) -> String { known.contains(method) ? method : "other" }
}
