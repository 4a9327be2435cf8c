'use strict'

// A directory for a test, which goes away with it.

const { mkdtempSync, rmSync } = require('node:fs')
const { tmpdir } = require('node:os')
const path = require('node:path')

function scratch(t) {
  const dir = mkdtempSync(path.join(tmpdir(), 'colibri-node-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

module.exports = { scratch }
