/// The request methods that may occur in the names of spans; any other method is replaced, because a client chooses its text.
package enum TraceMethod {
    private static let known: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

    /// Returns the method, or `other`.
    package static func name(_ method: String) -> String { known.contains(method) ? method : "other" }
}
