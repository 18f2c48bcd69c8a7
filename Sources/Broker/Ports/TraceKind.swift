/// On which side of a call a span stands.
package enum TraceKind: Sendable { case server, client }
