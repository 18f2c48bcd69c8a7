/// The methods that spans are named by: a stranger's words are no names.
package enum TraceMethod {
    private static let known: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

    /// Returns the method, or `other`.
    package static func name(_ method: String) -> String { known.contains(method) ? method : "other" }
}
