/// The role of the span in a call: server or client.
package enum TraceKind: Sendable { case server, client }
